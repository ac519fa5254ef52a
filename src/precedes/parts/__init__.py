"""Parts shared by protocols: pools, clocks, waiting messages, trees, tests, checks by hashes.

None of them is a protocol or depends on one. Each has two users or more.
"""
