"""Programs known by their operands that need more than a rule: cp and mv, dd, tar, rsync and scp, sed, awk.

Does not cover: those for which `write(..)` and `delete(..)` in a rule are enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from takeback.guard.command import Handler, Step
from takeback.guard.later import pattern
from takeback.guard.model import Deed, What
from takeback.guard.words import UNKNOWN

_REMOTE = pattern(r"([\w.-]+@)?[\w.\[\]-]+:(?!/\w:)|(rsync|sftp|scp|ftp)://")


def copy(step: Step) -> None:
    """cp, mv, ln, install: the last operand or `-t DIR` is written; mv deletes what it moves."""
    into = step.parsed.values("-t", "--target-directory")
    operands = step.operands
    sources, target = (operands, into[-1]) if into else (operands[:-1], operands[-1] if operands else "")
    if step.name == "install" and step.parsed.has("-d", "--directory"):
        sources, target = [], ""
        for one in operands:
            step.touch(one)
    if step.name == "ln" and len(operands) == 1 and not into:
        target = operands[0].rstrip("/").rpartition("/")[2] or UNKNOWN
    if step.name == "mv":
        for one in sources:
            step.touch(one, delete=True, deep=True)
    if target:
        step.touch(target)
    if step.parsed.has("--use-compress-program"):
        step.deed(Deed.OPAQUE)


def dd(step: Step) -> None:
    """`dd`: `of=`."""
    for word in step.words:
        if word.startswith("of="):
            step.touch(word[3:])
        elif UNKNOWN in word and not word.startswith(("if=", "bs=", "count=", "skip=", "seek=", "conv=", "status=")):
            step.touch(word)


def rsync(step: Step) -> None:
    """rsync, scp: where the last operand is."""
    operands = step.operands
    for one in step.parsed.values("-e", "--rsh", "-S"):
        if one.split()[:1] not in ([], ["ssh"]):
            step.shell(one)
    if not operands:
        return
    target, sources = operands[-1], operands[:-1]
    if _REMOTE.match(target):
        step.deed(Deed.OUTSIDE, f"{step.name} sends files to {target.partition(':')[0]}", target.partition(":")[0])
    elif sources:
        step.touch(target, delete=any(one.startswith("--delete") for one in step.parsed.options), deep=True)
    if step.parsed.has("--remove-source-files", "--remove-sent-files"):
        for one in sources:
            if _REMOTE.match(one):
                step.deed(Deed.OUTSIDE, f"{step.name} deletes files of another machine")
            else:
                step.touch(one, delete=True)


def tar(step: Step) -> None:
    """tar: extracting writes a folder, making an archive writes it; some options run programs."""
    words = list(step.words)
    if words and not words[0].startswith("-") and re.fullmatch(r"[A-Za-z]+", words[0]):
        words[0] = "-" + words[0]
        step.words = words
        step.parsed = step.entry.read(words)
    has, values = step.parsed.has, step.parsed.values
    for action in values("--checkpoint-action"):
        kind, _, command = action.partition("=")
        if kind == "exec":
            step.shell(command)
    for command in (
        *values("--to-command"),
        *values("-I", "--use-compress-program"),
        *values("-F", "--info-script"),
        *values("--rsh-command"),
        *values("--new-volume-script"),
    ):
        step.shell(command)
    archive = [one for one in values("-f", "--file") if one]
    if has("-x", "--extract", "--get"):
        if has("-P", "--absolute-names"):
            step.deed(Deed.DESTROYS, "tar -P writes wherever the archive says")
        if not has("-O", "--to-stdout", "--to-command"):
            for folder in values("-C", "--directory") or ["."]:
                step.touch(folder, deep=True)
    elif has("-c", "--create", "-r", "--append", "-u", "--update", "-A", "--catenate", "--concatenate", "--delete"):
        for one in archive:
            if _REMOTE.match(one) and not has("--force-local"):
                step.deed(Deed.OUTSIDE, "tar writes to another machine")
            else:
                step.touch(one)
        if has("--remove-files"):
            for one in step.operands:
                step.touch(one, delete=True, deep=True)
    elif not has("-t", "--list", "-d", "--diff", "--compare", "--test-label"):
        step.deed(Deed.OPAQUE)


def sed(step: Step) -> None:
    """sed: files edited in place, and what its script writes or runs."""
    has, values = step.parsed.has, step.parsed.values
    operands = list(step.operands)
    scripts = values("-e", "--expression")
    if not scripts and not has("-f", "--file"):
        # `-i ''` of BSD leaves an empty operand.
        if operands and not operands[0]:
            operands.pop(0)
        scripts = operands[:1]
        operands = operands[1:]
    if has("-i", "--in-place", "-I") or any(one.startswith("-i") for one in step.parsed.options):
        for one in operands:
            step.touch(one)
    if has("-f", "--file"):
        step.deed(Deed.OPAQUE, "sed runs a script that is not looked into")
    for text in scripts:
        for what, argument in sed_deeds(text):
            if what == "w":
                step.touch(argument)
            elif argument:
                step.shell(argument)
            else:
                step.deed(Deed.OPAQUE, "sed runs what it makes of its input")


def sed_deeds(text: str) -> Iterator[tuple[str, str]]:
    """Yield ("w", file) and ("e", command) for what a sed script writes and runs."""
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if char.isspace() or char in ";{}!,$+~0123456789":
            at += 1
        elif char in "/\\":
            at += char == "\\"
            at = _skip(text, at + 1, text[at : at + 1] or "/")
            while at < end and text[at] in "IM":
                at += 1
        elif char in "sy":
            mark = text[at + 1 : at + 2]
            if not mark:
                return
            at = _skip(text, _skip(text, at + 2, mark), mark)
            while at < end and (text[at].isalnum()):
                if text[at] == "w" and char == "s":
                    line = text[at + 1 :].partition("\n")[0]
                    yield "w", line.strip()
                    at += len(line)
                elif text[at] == "e" and char == "s":
                    yield "e", ""
                at += 1
        elif char in "wWeRraic:btTqQ":
            line = re.split(r"[\n]" if char in "wWeRraic" else r"[;\n}]", text[at + 1 :], maxsplit=1)[0]
            if char in "wW":
                yield "w", line.strip()
            elif char == "e":
                yield "e", line.strip()
            at += 1 + len(line)
        else:
            at += 1


def _skip(text: str, at: int, mark: str) -> int:
    """Return the place behind the next `mark` that no backslash hides."""
    while at < len(text) and text[at] != mark:
        at += 2 if text[at] == "\\" else 1
    return at + 1


_STRING = pattern(r'"((?:[^"\\]|\\.)*)"')
_PRINT_TO = pattern(r"\bprintf?\b[^;}\n|>]*(>>?|\|)\s*([^\s;}]+)")
_FROM = pattern(r"(\x01\d+\x01|\))\s*\|\s*&?\s*getline")


def awk(step: Step) -> None:
    """awk: what its program prints into, and runs."""
    operands = list(step.operands)
    if step.parsed.has("-f", "--file", "-E", "--exec"):
        step.deed(Deed.OPAQUE, f"{step.name} runs a script that is not looked into")
        texts = []
    else:
        texts, operands = operands[:1], operands[1:]
    if "inplace" in step.parsed.values("-i", "--include"):
        for one in operands:
            if "=" not in one:
                step.touch(one)
    for text in texts:
        _awk_program(step, text)


def _awk_program(step: Step, text: str) -> None:
    strings: list[str] = []

    def hide(found: re.Match[str]) -> str:
        strings.append(found[1].replace('\\"', '"'))
        return f"\x01{len(strings) - 1}\x01"

    masked = _STRING.sub(hide, text)

    def constant(token: str) -> str | None:
        found = re.fullmatch(r"\x01(\d+)\x01", token)
        return strings[int(found[1])] if found else None

    for operator, token in _PRINT_TO.findall(masked):
        said = constant(token)
        if operator == "|":
            step.shell(said) if said is not None else step.deed(
                Deed.OPAQUE, f"{step.name} runs what it makes of its input"
            )
        else:
            step.touch(said if said is not None else UNKNOWN)
    for token in re.findall(r"\bsystem\s*\(\s*([^()\s]*)\s*(\)?)", masked):
        said = constant(token[0]) if token[1] else None
        if said is not None:
            step.shell(said)
        else:
            step.deed(Deed.OPAQUE, f"{step.name} runs what it makes of its input")
    for token in _FROM.findall(masked):
        said = constant(token)
        step.shell(said) if said is not None else step.deed(Deed.OPAQUE, f"{step.name} runs what it makes of its input")
    for said in strings:
        if said.startswith(("/inet/", "/inet4/", "/inet6/")):
            step.deed(Deed.OUTSIDE, f"{step.name} talks to the network", what=What.NETWORK)


HANDLERS: dict[str, Handler] = {"copy": copy, "dd": dd, "tar": tar, "rsync": rsync, "sed": sed, "awk": awk}
