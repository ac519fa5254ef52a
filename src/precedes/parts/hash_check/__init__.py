"""Parts of the check of a message by the hash of its past ("Improving accuracy").

Algorithm 2 itself is in the protocols. ``queue`` has the waiting messages. ``search`` (Algorithm 3)
looks for the set that explains a hash among the deliveries of the ``log``, whose hashes are those
of ``set_hash``; ``requests`` asks the sender if no set does.
"""
