"""The simulator: one host for every protocol, deterministic from one seed."""
