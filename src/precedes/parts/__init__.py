"""What several protocols share: pools, clocks, waiting messages, trees, tests, checks by hashes.

Nothing here is a protocol, and no part knows one. Each has two users or more.
"""
