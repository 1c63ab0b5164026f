"""Faults that users of other tools reported, and more of the same kinds, through the real command line."""
