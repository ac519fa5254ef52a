"""A paper: what is printed, the runs, and what is made of them."""
