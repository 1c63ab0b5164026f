"""Agents people use, as takeback knows them: where their settings are, what is installed there, what went wrong.

Does not cover: what their hooks say (`takeback.hooks`).
"""
