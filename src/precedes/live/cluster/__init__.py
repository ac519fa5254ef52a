"""A group of processes on this machine, with load, faults and a verdict."""
