"""The inputs of a run: broadcasts, delays and faults, drawn from one seed."""
