"""Whether a command has the form that a rule of a policy names.

    git push origin feature/*     words as a shell reads them; `*` and `?` within a word are globs
    npm run *                     `*` at the end: whatever follows that is no option
    npm run deploy **             `**` at the end: whatever follows

A rule that makes looser must fit the whole command, word by word, and nothing in it may be unknown. One that makes
stricter fits every command that begins so, with options in any order and others in between, and also one that might
turn out so (`git $X`): in doubt it counts. Does not cover: which rule counts (`policy`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from takeback.guard.words import UNKNOWN

_PRIVATE = "\ue000\ue001\ue002"  # how what is not known stands in a word
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def fits(form: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a command is wholly of this form, as it must be for a rule that makes looser."""
    rest = form[-1] if len(form) > 1 and form[-1] in ("*", "**") else ""
    fixed = form[:-1] if rest else form
    if len(words) < len(fixed) or (len(words) > len(fixed) and not rest):
        return False
    if not all(_is(pattern, word) for pattern, word in zip(fixed, words, strict=False)):
        return False
    return rest != "*" or not any(word.startswith("-") or UNKNOWN in word for word in words[len(fixed) :])


def may_fit(form: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a command begins with this form, or might, as is enough for a rule that makes stricter."""
    words = list(words)
    while len(words) > 1 and _ASSIGNMENT.match(words[0]):
        del words[0]
    if not words or not _program(form[0], words[0]):
        return False
    wanted = form[1:-1] if len(form) > 1 and form[-1] in ("*", "**") else form[1:]
    unseen = any(_unseen(word) for word in words)  # may be any number of words
    given = [word for word in words[1:] if word.startswith("-")]
    for option in [one for one in wanted if one.startswith("-")]:
        if not unseen and not _option(option, given):
            return False
    return _in_order([one for one in wanted if not one.startswith("-")], words)


def may_be(pattern: str, text: str) -> bool:
    """Whether a text with parts that are not known could be one that a glob matches."""
    if not any(mark in text for mark in (*_PRIVATE, "*", "?", "[", "{")):
        return _glob(pattern, "any").fullmatch(text) is not None
    known = re.sub(rf"[{_PRIVATE}]+|[*?]|\[.*|\{{.*", "\0", text)
    return _meet(pattern, known)


def is_host(pattern: str, host: str) -> bool:
    """Whether a host that is wholly known is one that a glob matches; case does not count."""
    return UNKNOWN not in host and "?" not in host and bool(_glob(pattern.lower(), "any").fullmatch(host.lower()))


def _in_order(wanted: list[str], words: list[str]) -> bool:
    at = 1
    for pattern in wanted:
        while True:
            if at == len(words):
                return False
            word = words[at]
            if _unseen(word):
                return True
            if not word.startswith("-") and may_be(pattern, _plain(word)):
                at += 1
                break
            # An option in between, or the value of one.
            if not word.startswith("-") and not words[at - 1].startswith("-"):
                return False
            at += 1
    return True


def _unseen(word: str) -> bool:
    return word != "" and not word.strip(_PRIVATE)


def _plain(word: str) -> str:
    return word[2:] if word.startswith("./") else word


def _program(pattern: str, word: str) -> bool:
    pattern, word = _plain(pattern), _plain(word)
    return may_be(pattern, word) or ("/" not in pattern and may_be(pattern, word.rpartition("/")[2]))


def _option(option: str, given: list[str]) -> bool:
    if any(may_be(option, word) or word.startswith(option + "=") for word in given):
        return True
    # Short options in a row: -rf is -fr, and -r -f.
    if not re.fullmatch(r"-[A-Za-z]{1,4}", option):
        return False
    return set(option[1:]) <= {letter for word in given if re.fullmatch(r"-[A-Za-z]+", word) for letter in word[1:]}


def _is(pattern: str, word: str) -> bool:
    if UNKNOWN in word or (word.startswith("-") and not pattern.startswith("-")):
        return False
    if ".." in word.split("/") and ".." not in pattern.split("/"):
        return False  # `build/*` is no word for build/../src
    return _glob(_plain(pattern), "one").fullmatch(_plain(word)) is not None


@lru_cache(maxsize=1024)
def _glob(pattern: str, reach: str) -> re.Pattern[str]:
    # A `*` that makes looser stops at a colon: feature/* is no word for feature/x:main.
    any_char = "." if reach == "any" else "[^:]"
    text = "".join({"*": any_char + "*", "?": any_char}.get(char, re.escape(char)) for char in pattern)
    return re.compile(text, re.DOTALL)


def _meet(a: str, b: str) -> bool:
    """Whether some text fits both globs; `*` and `?` are those of `a`, NUL stands for any text in `b`."""
    row = [True] + [False] * len(b)
    for column, char in enumerate(b, 1):
        row[column] = row[column - 1] and char == "\0"
    for mark in a:
        new = [row[0] and mark == "*"]
        for column, char in enumerate(b, 1):
            if mark == "*" or char == "\0":
                # One of them stands for nothing here, or for one more character.
                met = row[column] or new[column - 1] or row[column - 1]
            else:
                met = row[column - 1] and mark in (char, "?")
            new.append(met)
        row = new
    return row[-1]
