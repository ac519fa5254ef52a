"""What live support stations keep on disk."""
