"""takeback."""
