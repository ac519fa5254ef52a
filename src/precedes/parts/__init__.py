"""What several protocols are made of: pools, waiting messages, and the check by hashes.

Nothing here is a protocol. A part imports no protocol and knows none by name.
"""
