"""What a run is given: broadcasts, delays and faults, drawn from one seed."""
