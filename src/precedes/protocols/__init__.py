"""The protocols: a file or a folder each, found by ``precedes.registry``."""
