"""Whether a change is nothing but formatting: the same program, written differently.

Python by its syntax tree and its comments, exactly. Others by their text without whitespace, string literals compared
as they are. Languages where indentation means something are never called formatting, Python apart; nor are shells and
others whose words blanks alone keep apart: `[ a=b ]` is always true, `[ a = b ]` is not.
Does not cover: which files changed (`flags`).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings

_LIMIT = 1 << 20
_INDENTED = (
    ".yml", ".yaml", ".mk", ".haml", ".pug", ".slim", ".coffee", ".sass", ".hs", ".nim", ".fs", ".fsx", ".ml", ".elm",
    ".rst", ".md", ".txt", ".csv", ".tsv", ".pyx", ".gd", ".jade",
)  # fmt: skip
_WORDS = (
    ".sh", ".bash", ".zsh", ".ksh", ".csh", ".fish", ".bats", ".command", ".bat", ".cmd", ".ps1", ".psm1", ".tcl",
    ".vim", ".lisp", ".el", ".scm", ".rkt", ".clj", ".cljs", ".cljc", ".edn", ".env", ".ini", ".cfg", ".conf",
    ".properties", ".service",
)  # fmt: skip
_WORD_NAMES = re.compile(
    r"(?:gnu)?makefile|dockerfile(?:\..*)?|containerfile|procfile|justfile|\.env(?:\..*)?|\.envrc"
    r"|\.(?:bash|zsh|ksh|csh|k|c)?(?:rc|profile|env|login|logout)|\.bash_\w+"
)
_SHELL = re.compile(rb"#![^\n]*\b(?:\w*sh|make|tclsh\S*|wish\S*)\b")
_STRING = re.compile(rb"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`")
_SPACE = re.compile(rb"\s+")


def only_formatting(name: str, before: bytes, after: bytes) -> bool:
    """Whether two contents of a file say the same; what cannot be told is not called formatting."""
    if before == after:
        return True
    if max(len(before), len(after)) > _LIMIT or b"\0" in before or b"\0" in after:
        return False
    lower = name.lower()
    if lower.endswith((".py", ".pyi")):
        return _same_python(before, after)
    if lower.endswith((*_INDENTED, *_WORDS)) or _WORD_NAMES.fullmatch(lower.rpartition("/")[2]):
        return False
    if _SHELL.match(before) or _SHELL.match(after):
        return False
    return _SPACE.sub(b"", before) == _SPACE.sub(b"", after) and _STRING.findall(before) == _STRING.findall(after)


def _same_python(before: bytes, after: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.dump(ast.parse(before)) == ast.dump(ast.parse(after)) and _comments(before) == _comments(after)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return False


def _comments(source: bytes) -> list[str]:
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return [token.string.strip() for token in tokens if token.type == tokenize.COMMENT]
