"""Settings: where data lives, and what the user and the project say about checkpoints.

    $TAKEBACK_HOME, else $XDG_DATA_HOME/takeback      private data
    $XDG_CONFIG_HOME/takeback/config.toml             the user's settings
    PROJECT/.takeback.toml                            the project's, which win

Does not cover: what the settings mean (`files.settings`), or what is done about steps (`config.policy`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from takeback.config import holds
from takeback.config.document import Document, read
from takeback.config.holds import HoldsSettings
from takeback.config.task import set_key
from takeback.errors import BadSetting, CannotRead, TakebackError
from takeback.files.settings import FilesSettings
from takeback.machines.cost import Prices
from takeback.tasks.settings import TaskSettings

_SECTIONS = ("checkpoint", "task")
_USER_SECTIONS = ("checkpoint", "machines", "prices", "holds", "task")  # most belong to a user, not to a project
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_PLATFORMS = ("systrap", "ptrace", "kvm")
_SIZES = {"max_size", "max_file", "tree_bytes"}
_CHOICES = {"store": ("private", "repository")}


@dataclass(frozen=True)
class MachinesSettings:
    """What the user says about sandboxes: prices, how many bytes all snapshots may hold (0: no limit).

    Also how the engine shall run programs (empty: as it finds best), and whether it may make containers ahead.
    """

    prices: Prices = field(default_factory=Prices)
    stored: int = 0
    platform: str = ""
    ahead: bool = True


@dataclass(frozen=True)
class Config:
    """All that is read from the environment and settings files, once."""

    data: Path
    home: bytes | None
    settings_file: Path
    files: FilesSettings
    machines: MachinesSettings = field(default_factory=MachinesSettings)
    holds: HoldsSettings = field(default_factory=HoldsSettings)
    task: TaskSettings = field(default_factory=TaskSettings)
    problem: TakebackError | None = None  # why the project's own settings do not count


@dataclass(frozen=True)
class _Read:
    """What the settings files say so far."""

    files: FilesSettings = field(default_factory=FilesSettings)
    machines: MachinesSettings = field(default_factory=MachinesSettings)
    task: TaskSettings = field(default_factory=TaskSettings)


def load(environ: Mapping[str, str], root: bytes | None = None, *, strict: bool = True) -> Config:
    """Read the settings for a project; without `strict` those of the project are left out when they have a mistake.

    A step may have broken that file, and to take it back must still be possible. Raises BadSetting with the line and
    the nearest right key, CannotRead.
    """
    home = environ.get("HOME") or os.path.expanduser("~")
    user = config_dir(environ, home) / "config.toml"
    said = _read(user, _Read(), _USER_SECTIONS)
    problem: TakebackError | None = None
    if root is not None:
        try:
            said = _read(Path(os.fsdecode(root)) / ".takeback.toml", said, _SECTIONS)
        except (BadSetting, CannotRead) as error:
            if strict:
                raise
            problem = error
    machines = _of_environment(environ, said.machines)
    found = holds.of(read(user))
    return Config(data_dir(environ, home), os.fsencode(home), user, said.files, machines, found, said.task, problem)


def _of_environment(environ: Mapping[str, str], machines: MachinesSettings) -> MachinesSettings:
    platform = environ.get("TAKEBACK_PLATFORM")
    if not platform:
        return machines
    if platform not in _PLATFORMS:
        raise BadSetting(
            file="environment", line="TAKEBACK_PLATFORM", problem=f"it cannot be {platform!r}",
            nearest=f"one of {', '.join(_PLATFORMS)}",
        )  # fmt: skip
    return replace(machines, platform=platform)


def config_dir(environ: Mapping[str, str], home: str) -> Path:
    """Return the folder of the user's settings."""
    return Path(environ.get("XDG_CONFIG_HOME") or Path(home) / ".config") / "takeback"


def data_dir(environ: Mapping[str, str], home: str) -> Path:
    """Return the folder of all private data."""
    if environ.get("TAKEBACK_HOME"):
        return Path(os.path.abspath(environ["TAKEBACK_HOME"]))
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "takeback"
    if os.uname().sysname == "Darwin":
        import platformdirs

        return Path(platformdirs.user_data_dir("takeback"))
    return Path(home) / ".local" / "share" / "takeback"


def _read(path: Path, said: _Read, sections: tuple[str, ...]) -> _Read:
    document = read(path)
    for section, values in document.tables.items():
        if section == "policy":
            continue  # it is read where it counts, so that a mistake in it keeps nobody from undoing
        if section not in sections:
            raise document.unknown("section", section, (*sections, "policy"))
        if not isinstance(values, dict):
            nearest = f"write [{section}] on a line of its own"
            raise document.bad(document.line(section), f"`{section}` must be a section", nearest)
        for key, value in values.items() if section != "holds" else ():
            if section == "checkpoint":
                said = replace(said, files=_set(document, said.files, key, value))
            elif section == "task":
                said = replace(said, task=set_key(document, said.task, key, value))
            else:
                said = replace(said, machines=_set_machines(document, said.machines, section, key, value))
    return said


def _set_machines(
    document: Document, machines: MachinesSettings, section: str, key: str, value: Any
) -> MachinesSettings:
    known = {one.name for one in fields(Prices)} if section == "prices" else {"stored", "platform", "ahead"}
    if key not in known:
        raise document.unknown("key", key, known, section)
    line, problem = document.line(section, key), f"`{key}` cannot be {value!r}"
    if (section, key) == ("machines", "platform"):
        if value not in _PLATFORMS:
            raise document.bad(line, problem, f"one of {', '.join(_PLATFORMS)}")
        return replace(machines, platform=value)
    if (section, key) == ("machines", "ahead"):
        if not isinstance(value, bool):
            raise document.bad(line, problem, "true or false")
        return replace(machines, ahead=value)
    if section == "machines":
        value = _size(value) if isinstance(value, str) else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        nearest = "a whole number of micro-dollars" if section == "prices" else "a size such as 20G; 0 is no limit"
        raise document.bad(line, problem, nearest)
    if section == "prices":
        return replace(machines, prices=replace(machines.prices, **{key: value}))
    return replace(machines, stored=value)


def _size(text: str) -> int | None:
    """Return the bytes of a size such as 500M or 20G, None for what is none."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    return None if found is None else int(float(found[1]) * _UNITS[found[2]])


def _set(document: Document, settings: FilesSettings, key: str, value: Any) -> FilesSettings:
    known = {field.name for field in fields(FilesSettings)}
    if key not in known:
        raise document.unknown("key", key, known, "checkpoint")

    def wrong(what: str) -> BadSetting:
        problem = f"`{key}` must be {what}, not {value!r}"
        return document.bad(
            document.line("checkpoint", key), problem, f"the default is {getattr(FilesSettings(), key)!r}"
        )

    if key in _CHOICES:
        if value not in _CHOICES[key]:
            raise wrong(" or ".join(repr(choice) for choice in _CHOICES[key]))
        return replace(settings, **{key: value})
    if key in _SIZES and isinstance(value, str):
        value = _size(value)
        if value is None:
            raise wrong("a size such as 500M or 20G")
    default = getattr(FilesSettings(), key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise wrong("a size such as 500M or 20G" if key in _SIZES else "a number, 0 or more")
    if key == "delete_share" and value > 1:
        raise wrong("a share from 0 to 1")
    return replace(settings, **{key: type(default)(value)})
