"""What is known of programs, as data: one entry a program, in files by field."""

from takeback.guard.rules.library import Library, builtin, with_own
from takeback.guard.rules.notation import Entry, Example, RuleError, blocks

__all__ = ["Entry", "Example", "Library", "RuleError", "blocks", "builtin", "with_own"]
