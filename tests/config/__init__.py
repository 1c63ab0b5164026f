"""Settings: how they are read, and what follows from two files."""
