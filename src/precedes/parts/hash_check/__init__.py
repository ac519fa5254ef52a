"""The check of a message by the hash of its past ("Improving accuracy", Algorithms 2 and 3).

``check`` decides when a message is delivered, over a ``queue`` of those that wait. What explains
a hash is found by ``search`` among the deliveries of the ``log``, whose hashes are those of
``set_hash``; what cannot be explained is asked for with ``requests``.
"""
