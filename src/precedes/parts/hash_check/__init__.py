"""Parts of the check of a message by the hash of its past ("Improving accuracy").

Algorithm 2 itself is in the protocols. ``queue`` has the messages that wait. What explains a hash
is found by ``search`` (Algorithm 3) among the deliveries of the ``log``, whose hashes are those of
``set_hash``; what cannot be explained is asked for with ``requests``.
"""
