"""Writers of logs for other tools, each of which gives the pieces of a file."""
