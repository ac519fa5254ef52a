"""Links between members: addresses, frames, handshakes, keys."""
