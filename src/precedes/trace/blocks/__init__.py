"""Events in no order, with names, become rows sorted by node, however many there are.

``pack`` cuts them into blocks, each with its own short numbers for nodes and messages. When all are
there, ``naming`` gives every name its number in the whole log, and ``merge`` brings the rows of a
range of nodes together from all blocks. Each step is a function from files to a file, so that a
loop in one process and tasks on many machines do the same.
"""
