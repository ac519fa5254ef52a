"""A member without sockets and without a clock: bytes in, bytes and deliveries out."""
