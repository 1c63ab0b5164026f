"""Every error takeback raises, declared once: message, exit code, HTTP status, hint.

    TakebackError
    ├── UsageError            exit 2   the request itself cannot be meant
    │   ├── UnknownId  AmbiguousId  OutsideProject  NoProject  BadSetting  BadRule
    ├── Refused               exit 1   we could, but it would lose something
    │   ├── HomeDirectory  TooBig  TooManyDeletes  DatabaseInUse  OpenFileInUse  IndexLocked  Conflict  StoreReadOnly
    ├── Unable                exit 1   the machine said no
    │   ├── DiskFull  Busy  GitMissing  GitTooOld  GitFailed  CannotRead  CannotWrite  TimedOut  PortInUse
    ├── Damaged               exit 1   what was saved is not all there
    └── NothingToDo           exit 1   "nothing to undo" and its kin

Does not cover: how an error is drawn (cli) or sent (server).
"""

from __future__ import annotations

from typing import Any, ClassVar


class TakebackError(Exception):
    """Base of all known errors; `kind` is stable and is what programs should test."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    message: ClassVar[str] = "{detail}"
    hint: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        super().__init__(self.message.format(**fields))

    @property
    def hint_text(self) -> str:
        """The next step for the reader, or an empty string."""
        return self.hint.format(**self.fields)


class UsageError(TakebackError):
    kind = "usage"
    exit_code = 2
    http_status = 400


class UnknownId(UsageError):
    kind = "unknown-id"
    http_status = 404
    message = "there is no {what} {id!r} in this project"
    hint = "{nearest}"


class AmbiguousId(UsageError):
    kind = "ambiguous-id"
    http_status = 409
    message = "{id!r} is in more than one project: {places}"
    hint = "name one with --project DIR"


class OutsideProject(UsageError):
    kind = "outside-project"
    message = "{path} is outside the project {root}"
    hint = "name a path below the project, or run takeback in the other project"


class NoProject(UsageError):
    kind = "no-project"
    http_status = 404
    message = "no project at {path}"
    hint = "cd into a project, or name one with --project DIR"


class BadSetting(UsageError):
    kind = "bad-setting"
    message = "{file}, line {line}: {problem}"
    hint = "{nearest}"


class BadRule(UsageError):
    kind = "bad-rule"
    message = "{where}: {entry!r} is no rule: {why}"
    hint = "{next}"


class Refused(TakebackError):
    kind = "refused"
    http_status = 409


class HomeDirectory(Refused):
    kind = "home-directory"
    message = "{path} is not a project: checkpoints of a home directory or / would copy everything you have"
    hint = "cd into the project's own folder"


class TooBig(Refused):
    kind = "too-big"
    http_status = 413
    message = "a checkpoint of {path} would copy {size} ({count} files), over the cap of {cap}; the biggest: {biggest}"
    hint = "ignore those paths in .gitignore, or raise `max_size` under [checkpoint] in {settings}"


class TooManyDeletes(Refused):
    kind = "too-many-deletes"
    message = "this would delete {deletes} of {total} files (over {share:.0%} of the project)"
    hint = "look with --dry-run, then say --yes; it can be undone"


class DatabaseInUse(Refused):
    kind = "database-in-use"
    http_status = 423
    message = "{path} is open in process {pid} ({command}); replacing it now would corrupt it"
    hint = "stop that process and repeat the command, or leave the file out with --partial"


class OpenFileInUse(Refused):
    kind = "path-in-use"
    http_status = 423
    message = "{path} cannot be replaced: {why}"
    hint = "move what is in the way, or name the paths to restore"


class IndexLocked(Refused):
    kind = "index-locked"
    http_status = 423
    message = "the index must change but {lock} is held{owner}"
    hint = "wait for that git command; if none runs, remove the lock file and repeat"


class Conflict(Refused):
    kind = "conflict"
    message = "{count} changed since and cannot be merged; nothing was written: {paths}"
    hint = "--partial takes back the rest, `takeback restore` puts back the whole tree"


class StoreReadOnly(Refused):
    kind = "store-too-new"
    message = "the data of this project was written by a newer takeback (format {found}, this one knows {known})"
    hint = "it can be read; update takeback to write"


class Unable(TakebackError):
    kind = "unable"
    http_status = 503


class DiskFull(Unable):
    kind = "disk-full"
    http_status = 507
    message = "no space left on the disk of {path}; nothing was changed"
    hint = "free some space (`takeback gc`, `takeback du`) and repeat"


class Busy(Unable):
    kind = "busy"
    http_status = 423
    message = "another takeback is at work here: {owner}"
    hint = "wait for it and repeat"


class GitMissing(Unable):
    kind = "git-missing"
    message = "no `git` on PATH"
    hint = "install git {minimum} or newer"


class GitTooOld(Unable):
    kind = "git-too-old"
    message = "git {found} is too old"
    hint = "install git {minimum} or newer"


class GitFailed(Unable):
    kind = "git-failed"
    message = "git {command} failed ({code}): {stderr}"
    hint = "`takeback doctor` looks for the cause"


class CannotRead(Unable):
    kind = "cannot-read"
    message = "cannot read {path}: {why}"
    hint = "make it readable, or ignore it in .gitignore"


class CannotWrite(Unable):
    kind = "cannot-write"
    message = "cannot write {path}: {why}"
    hint = "{next}"


class TimedOut(Unable):
    kind = "timed-out"
    http_status = 504
    message = "{what} did not end within {seconds:g} s"
    hint = "it was asked to stop and nothing was changed"


class PortInUse(Unable):
    kind = "port-in-use"
    http_status = 409
    message = "cannot listen on {address}: {why}"
    hint = "name another port, or 0 for any free one"


class Damaged(TakebackError):
    kind = "damaged"
    message = "{what} is damaged: {detail}"
    hint = "{next}"


class NothingToDo(TakebackError):
    kind = "nothing-to-do"
    http_status = 409
    message = "{sentence}"
    hint = "{next}"


def all_errors() -> list[type[TakebackError]]:
    """Every error class, parents before children, for the documentation table and its test."""
    found: list[type[TakebackError]] = []

    def visit(cls: type[TakebackError]) -> None:
        found.append(cls)
        for child in cls.__subclasses__():
            visit(child)

    visit(TakebackError)
    return found
