"""Agreement on who is in a live group: a state machine without sockets, clock or files."""
