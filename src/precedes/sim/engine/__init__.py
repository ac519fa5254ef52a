"""The compiled loop of the simulator, and the world that it runs in."""
