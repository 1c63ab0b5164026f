"""Holds: what cannot be taken back waits for a person, with what it would send and what would undo it.

Does not cover: what is held (`guard.policy`), who may approve (`app.person`), running it (`app.holding`).
"""
