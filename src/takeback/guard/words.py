"""Words of the shell as the program gets them: quotes, backslashes, `$'..'`, constants, splitting, braces, tilde.

A part that cannot be known stands in the word as UNKNOWN. Does not cover: globs (a `*` stays as it is), and what
a command substitution does (`inner` is asked for each).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from takeback.guard.later import pattern
from takeback.guard.parse import decode, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

# Marks from the private area, so that a script put together at run time can still be read with them in it.
UNKNOWN = "\ue000"
SECRET = UNKNOWN + "\ue001"  # the value of a variable that is named like a secret
PRINTED = UNKNOWN + "\ue002"  # what some command prints that reads this machine
_MARKS = str.maketrans("", "", "\ue001\ue002")

Inner = Callable[["Node"], str]

VALUES = (
    *("word", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion", "number"),
    *("command_substitution", "process_substitution", "arithmetic_expansion", "brace_expression"),
    *("translated_string", "extglob_pattern", "regex"),
)

_PLAIN = re.compile(rb"[\w./=:,@%+-]*")
_DOUBLE = pattern(r"\\([$`\"\\\n])")
_BARE = pattern(r"\\(\n|.)", re.DOTALL)
_ANSI = pattern(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI_NAMES = {
    **{"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"},
    **{"e": "\x1b", "E": "\x1b", "\\": "\\", "'": "'", '"': '"', "?": "?"},
}
_SECRET_NAME = pattern(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|PRIVATE_KEY|ACCESS_KEY|AUTH)", re.I
)
_BRACES = pattern(r"\{([^{}]*(?:,|\.\.)[^{}]*)\}")
_MOST_WORDS = 64


def shown(text: str) -> str:
    """Return text for people: a question mark for what is not known."""
    return text.translate(_MARKS).replace(UNKNOWN, "?")


def decode_ansi(text: str) -> str:
    """Decode the inside of `$'..'`."""

    def one(found: re.Match[str]) -> str:
        code = found[1]
        if code in _ANSI_NAMES:
            return _ANSI_NAMES[code]
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
            return chr(number) if number < 0x110000 else UNKNOWN
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        if code[0] == "c" and len(code) > 1:
            return chr(ord(code[1]) & 0x1F)
        return "\\" + code

    return _ANSI.sub(one, text)


def expand_braces(text: str) -> list[str]:
    """Expand `{a,b}` and `{1..3}`; as soon as there are too many, one unknown word."""
    done: list[str] = []
    waiting = [text]
    while waiting:
        if len(done) + len(waiting) > _MOST_WORDS:
            return [UNKNOWN]
        one = waiting.pop()
        found = _BRACES.search(one)
        if found is None:
            done.append(one)
            continue
        if "," in found[1]:
            choices = found[1].split(",")
        else:
            first, _, last = found[1].partition("..")
            if not (first.lstrip("-").isdigit() and last.lstrip("-").isdigit()):
                choices = [UNKNOWN]
            elif abs(int(last) - int(first)) >= _MOST_WORDS:
                return [UNKNOWN]
            else:
                low, high = sorted((int(first), int(last)))
                choices = [str(number) for number in range(low, high + 1)]
        waiting.extend(one[: found.start()] + choice + one[found.end() :] for choice in reversed(choices))
    return done


class Expander:
    """Turns word nodes into words, with the variables of one scope."""

    def __init__(self, variables: Mapping[str, str], home: str, inner: Inner) -> None:
        self._variables = variables
        self._home = home
        self._inner = inner

    def words(self, node: Node) -> list[str]:
        """Return the words that one argument becomes."""
        raw = node.text or b""
        if node.type in ("word", "number") and _PLAIN.fullmatch(raw):
            return [raw.decode("ascii")]
        pieces: list[tuple[str, bool]] = []
        self._pieces(node, pieces, first=True)
        words = _join(pieces)
        if b"{" in raw and node.type in ("concatenation", "word", "brace_expression"):
            return [one for word in words for one in expand_braces(word)]
        return words

    def text(self, node: Node) -> str:
        """Return the one word of an assignment, a redirection or a heredoc."""
        pieces: list[tuple[str, bool]] = []
        self._pieces(node, pieces, first=True)
        return "".join(text for text, _ in pieces)

    def _pieces(self, node: Node, into: list[tuple[str, bool]], first: bool = False) -> None:
        kind = node.type
        raw = text_of(node)
        if kind in ("word", "number", "variable_name", "extglob_pattern", "file_descriptor", "regex"):
            if first and raw.startswith("~"):
                raw = self._tilde(raw)
            into.append((_BARE.sub(lambda found: "" if found[1] == "\n" else found[1], raw), False))
        elif kind == "raw_string":
            into.append((raw[1:-1], False))
        elif kind == "ansi_c_string":
            into.append((decode_ansi(raw[2:-1]), False))
        elif kind == "string":
            self._quoted(node, into)
        elif kind in ("concatenation", "translated_string", "command_name"):
            for number, child in enumerate(node.children):
                if not (kind == "translated_string" and child.type == "$"):
                    self._pieces(child, into, first and number == 0)
        elif kind == "simple_expansion":
            into.append((self.variable(raw[1:]), True))
        elif kind == "expansion":
            into.append((self._expansion(node), True))
        elif kind == "command_substitution":
            into.append((self._inner(node), True))
        elif kind == "process_substitution":
            self._inner(node)
            into.append(("/dev/fd/63", False))
        elif kind == "brace_expression":
            into.append((raw, False))
        elif kind == "arithmetic_expansion":
            self._look_inside(node)
            into.append((UNKNOWN, False))
        elif kind == "$":
            into.append(("", False))
        else:
            self._look_inside(node)
            into.append((raw if node.child_count == 0 else UNKNOWN, False))

    def _quoted(self, node: Node, into: list[tuple[str, bool]]) -> None:
        text = node.text or b""
        position, base = 1, node.start_byte
        for child in node.named_children:
            start, end = child.start_byte - base, child.end_byte - base
            if start > position:
                into.append((_in_double(text[position:start]), False))
            if child.type == "string_content":
                into.append((_in_double(text[start:end]), False))
            else:
                inside: list[tuple[str, bool]] = []
                self._pieces(child, inside)
                into.extend((one, False) for one, _ in inside)
            position = end
        into.append((_in_double(text[position:-1]), False))

    def variable(self, name: str) -> str:
        """Return the value of a variable, UNKNOWN when it is not a constant."""
        value = self._variables.get(name)
        if value is None:
            return SECRET if _SECRET_NAME.search(name) else UNKNOWN
        return value

    def _expansion(self, node: Node) -> str:
        children = node.children
        if len(children) == 3 and children[1].type in ("variable_name", "special_variable_name"):
            return self.variable(text_of(children[1]))
        self._look_inside(node)
        return UNKNOWN

    def _look_inside(self, node: Node) -> None:
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self._inner(child)
            elif child.child_count:
                self._look_inside(child)

    def _tilde(self, raw: str) -> str:
        name, slash, rest = raw.partition("/")
        if name == "~":
            return self._home + slash + rest
        if name == "~+":
            return "." + slash + rest
        return f"/home/{name[1:]}{slash}{rest}"


def _in_double(text: bytes) -> str:
    plain = decode(text)
    return _DOUBLE.sub(lambda found: "" if found[1] == "\n" else found[1], plain) if "\\" in plain else plain


def _join(pieces: list[tuple[str, bool]]) -> list[str]:
    """Put pieces together; those of unquoted expansions are split at blanks."""
    if len(pieces) == 1 and not pieces[0][1]:
        return [pieces[0][0]]
    words: list[str] = []
    open_word: str | None = None
    for text, splits in pieces:
        if not splits or not any(blank in text for blank in " \t\n"):
            if splits and not text:
                continue
            open_word = (open_word or "") + text
            continue
        parts = text.split()
        if text[0].isspace() and open_word is not None:
            words.append(open_word)
            open_word = None
        for number, part in enumerate(parts):
            if number:
                words.append(open_word or "")
                open_word = None
            open_word = (open_word or "") + part
        if text[-1].isspace() and open_word is not None:
            words.append(open_word)
            open_word = None
    if open_word is not None:
        words.append(open_word)
    return words


def split(source: str) -> list[str] | None:
    """Split a line without operators into words, quotes taken off; None when there is more than words in it."""
    words: list[str] = []
    word: str | None = None
    position, end = 0, len(source)
    while position < end:
        char = source[position]
        if char in ";&|<>()$`\n#":
            return None
        if char in " \t":
            if word is not None:
                words.append(word)
                word = None
        elif char == "\\":
            position += 1
            word = (word or "") + source[position : position + 1]
        elif char in "'\"":
            close = source.find(char, position + 1)
            inside = source[position + 1 : close]
            if close < 0 or (char == '"' and any(one in inside for one in "$`\\")):
                return None
            word = (word or "") + inside
            position = close
        else:
            word = (word or "") + char
        position += 1
    if word is not None:
        words.append(word)
    return [one for item in words for one in expand_braces(item)]
