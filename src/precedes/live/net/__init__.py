"""Links between members: addresses, frames, greetings, keys."""
