"""Every error takeback raises, declared once: message, exit code, HTTP status, hint.

    TakebackError
    ├── UsageError            exit 2   the request itself cannot be meant
    │   ├── UnknownId  AmbiguousId  OutsideProject  NoProject  BadSetting  UnknownImage  BadRule
    │   ├── InvalidRequest  SandboxNotFound  ProcessNotFound  SnapshotNotFound  StepNotFound
    │   ├── UnknownAgent  NoCheck
    │   ├── FileNotFound  IsADirectory  NotADirectory  FileExists  PermissionDenied  FileRefused
    ├── Refused               exit 1   we could, but it would lose something
    │   ├── StepDenied  StepHeld  StepUnderWay
    │   ├── HomeDirectory  TooBig  TooManyDeletes  DatabaseInUse  OpenFileInUse  IndexLocked  Conflict  StoreReadOnly
    │   ├── CannotSave  CannotSaveFirst  SnapshotMismatch  StoredLimit  FenceConflict
    │   ├── NameTaken  NotPaused  SandboxPaused  SandboxHeld  SandboxStopped  ProcessRunning  ProcessLimit
    │   ├── OtherKeeper  NotAPerson  WrongToken  HoldNotWaiting  HoldStale
    │   ├── TaskExists  NoCommits  NoIdentity  BranchElsewhere  DirtyTree  RedCheck  TaskLanded  RevertRefused
    ├── Unable                exit 1   the machine said no
    │   ├── DiskFull  Busy  GitMissing  GitTooOld  GitFailed  CannotRead  CannotWrite  TimedOut  PortInUse
    │   ├── KeeperFailed  KeeperGone  StartFailed  Unsupported  DownloadIncomplete  TerminalRefused
    │   ├── NeedsLinux  EngineMissing  EngineTooOld  ToolMissing  ExtraMissing  FetchFailed
    │   ├── ImageBuildFailed  ImageFetchFailed
    │   ├── EngineFailed  MachineGone  AgentMissing  SetupFailed
    │   ├── SupervisorMissing  MachineSilent  NotStarted  MachineRefused
    │   └── CommandError
    │       └── CommandTimeout
    ├── Damaged               exit 1   what was saved is not all there
    │   └── SnapshotDamaged
    └── NothingToDo           exit 1   "nothing to undo" and its kin

By its HTTP status each is also one of InvalidRequestError, PermissionDeniedError, NotFoundError, ConflictError and
ServiceUnavailableError, the names under which programs of the hosted client catch them.

Does not cover: how an error is drawn (cli) or sent (server).
"""

from __future__ import annotations

from typing import Any, ClassVar


class ByStatus(type):
    """Gives every error the base that programs of the hosted client catch: which one follows from its `http_status`.

    With `group=True` a class has none: it exists to be caught itself.
    """

    families: ClassVar[dict[int, type]] = {}

    def __new__(
        metaclass, name: str, bases: tuple[type, ...], members: dict[str, Any], *, group: bool = False
    ) -> ByStatus:
        if not group:
            status = members.get("http_status") or next(base.http_status for base in bases)  # type: ignore[attr-defined]
            family = metaclass.families.get(500 if status >= 500 else status)
            members["http_status"] = status  # the family's own is one of several
            if family is not None and not any(issubclass(base, family) for base in bases):
                bases = (*(base for base in bases if not issubclass(family, base)), family)
        return super().__new__(metaclass, name, bases, members)

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], *, group: bool = False) -> None:
        super().__init__(name, bases, members)


class TakebackError(Exception, metaclass=ByStatus, group=True):
    """Base of all known errors; `kind` is stable and is what programs should test.

    Of one that was raised, `message` and `hint` are the texts themselves.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    message: ClassVar[str] = "{detail}"
    hint: ClassVar[str] = ""
    retryable: ClassVar[bool] = False  # whether the very same call may succeed a moment later

    # What the hosted service sends with an error and one's own machine has no use for.
    request_id: ClassVar[None] = None
    idempotency_key: ClassVar[None] = None
    retry_after_ms: ClassVar[None] = None
    sent_retryable: ClassVar[None] = None

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        text = type(self).message.format(**fields)
        super().__init__(text)
        vars(self)["message"] = text
        vars(self)["hint"] = self.hint_text

    @property
    def hint_text(self) -> str:
        """The next step for the reader, or an empty string."""
        return type(self).hint.format(**self.fields)

    @property
    def code(self) -> str:
        """The kind as programs of the hosted service spell it: `name_taken`."""
        return self.kind.replace("-", "_")

    @property
    def status(self) -> int:
        """The HTTP status, under the name programs of the hosted service read."""
        return self.http_status

    @property
    def details(self) -> dict[str, Any]:
        """What the error is about, by name."""
        return dict(self.fields)


class InvalidRequestError(TakebackError, group=True):
    """Every error with status 400, 413 or 422; the hosted client's name."""

    kind = "status-bad-request"
    http_status = 400


class PermissionDeniedError(TakebackError, group=True):
    """Every error with status 403; the hosted client's name."""

    kind = "status-forbidden"
    http_status = 403


class NotFoundError(TakebackError, group=True):
    """Every error with status 404; the hosted client's name."""

    kind = "status-not-found"
    http_status = 404


class ConflictError(TakebackError, group=True):
    """Every error with status 409; the hosted client's name."""

    kind = "status-conflict"
    http_status = 409


class ServiceUnavailableError(TakebackError, group=True):
    """Every error with status 500 and above; the hosted client's name."""

    kind = "status-unavailable"
    http_status = 503


ByStatus.families |= {
    400: InvalidRequestError,
    413: InvalidRequestError,
    422: InvalidRequestError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    500: ServiceUnavailableError,
}


class UsageError(TakebackError, group=True):
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


class InvalidRequest(UsageError):
    kind = "invalid-request"
    message = "{detail}"
    hint = "{next}"


class SandboxNotFound(UsageError):
    kind = "not-found"
    http_status = 404
    message = "there is no sandbox {id!r}"
    hint = "`takeback sandbox ls` shows those there are; a deleted one cannot be brought back"


class SandboxReplaced(SandboxNotFound):
    kind = "sandbox-replaced"
    message = "sandbox {id!r} is gone: its copy {heir!r} took its place"
    hint = "go on with that one: `trial.kept` of the trial that was kept, `takeback sandbox ls` in a shell"


class ProcessNotFound(UsageError):
    kind = "process-not-found"
    http_status = 404
    message = "there is no process {id!r} in sandbox {sandboxId}"
    hint = "`takeback sandbox ps` shows the running ones and the last 16 that ended"


class SnapshotNotFound(UsageError):
    kind = "snapshot-not-found"
    http_status = 404
    message = "there is no snapshot {id!r}"
    hint = "it may have been deleted, or its days are over; list the snapshots to see what is there"


class StepNotFound(UsageError):
    kind = "step-not-found"
    http_status = 404
    message = "this chain has no step {step!r}"
    hint = "its steps: {known}"


class FileNotFound(UsageError):
    kind = "file-not-found"
    http_status = 404
    message = "no such file or directory in the sandbox: {path}"
    hint = "list its folder to see what is there"


class IsADirectory(UsageError):
    kind = "is-a-directory"
    http_status = 409
    message = "{path} is a directory in the sandbox"
    hint = "name a file, or download or remove the directory as a whole"


class NotADirectory(UsageError):
    kind = "not-a-directory"
    http_status = 409
    message = "{path} in the sandbox is not a directory, or lies below something that is none"
    hint = "name a directory"


class FileExists(UsageError):
    kind = "file-exists"
    http_status = 409
    message = "{path} is already there in the sandbox"
    hint = "say overwrite=True, or name another path"


class PermissionDenied(UsageError):
    kind = "permission-denied"
    http_status = 403
    message = "the sandbox's user may not do that with {path}"
    hint = "run a command as user='root' for it"


class FileRefused(UsageError):
    kind = "file-refused"
    http_status = 409
    message = "{path} in the sandbox: {why}"
    hint = "look at it with a command in the sandbox"


class UnknownImage(UsageError):
    kind = "image-not-found"
    http_status = 404
    message = "{name!r} is no image: {why}"
    hint = "images are {known}, and any directory with a system in it, by its full path"


class UnknownAgent(UsageError):
    kind = "unknown-agent"
    message = "{name!r} is no agent that takeback knows"
    hint = "{nearest}"


class NoCheck(UsageError):
    kind = "no-check"
    message = "a task without a check is a gamble: nothing would tell whether it was done"
    hint = "name a command that must end with 0, such as --verify 'make test'; there may be several"


class Refused(TakebackError, group=True):
    kind = "refused"
    http_status = 409


class HomeDirectory(Refused):
    kind = "home-directory"
    message = "{path} is not a project: checkpoints of a home directory or / would copy everything you have"
    hint = "cd into the project's own folder"


class StepDenied(Refused):
    kind = "step-denied"
    exit_code = 125
    http_status = 403
    message = "not run: {why}"
    hint = "{next}"


class StepHeld(Refused):
    kind = "step-held"
    exit_code = 126
    message = "not run: {why}; it waits for a person as {id}"
    hint = "`takeback approve {id}` runs it once, `takeback deny {id}` drops it; that is for a person, not for an agent"


class StepUnderWay(Refused):
    kind = "step-under-way"
    exit_code = 126
    message = "not run: {id} was approved: {state}"
    hint = "`takeback holds` shows it; a person who has looked what it did settles it with `takeback deny {id}`"


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


class CannotSave(Refused):
    kind = "cannot-save"
    message = "this sandbox cannot be saved now: {why}"
    hint = "{next}"


class CannotSaveFirst(CannotSave):
    kind = "cannot-save-first"
    message = "sandbox {id} was not restored: what it is now cannot be saved first: {why}"
    hint = "mend that, or give up the way back: restore(..., undo=False), on the command line --no-undo"


class StoredLimit(Refused):
    kind = "stored-limit"
    message = "another snapshot of about {need} bytes would pass the limit of {limit}: {stored} are stored"
    hint = "delete snapshots (`takeback sandbox snapshots`, `takeback du`), or raise `stored` in [machines]"


class SnapshotMismatch(Refused):
    kind = "snapshot-mismatch"
    message = "snapshot {snapshot} cannot be started here: {why}"
    hint = "{next}"


class FenceConflict(Refused):
    kind = "fence-conflict"
    message = "the labels of snapshot {snapshot} are not those named"
    hint = "somebody changed them; look at it and repeat"


class NameTaken(Refused):
    kind = "name-taken"
    message = "a sandbox named {name!r} is alive already: {sandboxId}"
    hint = "take another name, delete that one, or use get_or_create"


class NotPaused(Refused):
    kind = "not-paused"
    message = "sandbox {id} is not paused but {state}"
    hint = "it can be used as it is"


class SandboxPaused(Refused):
    kind = "sandbox-paused"
    message = "sandbox {id} is paused and does not wake by itself"
    hint = "wake it first, or make it with auto_wake=True"


class SandboxHeld(Refused):
    kind = "sandbox-held"
    http_status = 507
    message = "sandbox {id} is paused: {why}"
    hint = "`takeback sandbox wake` lets it go on: remove files then, or stop what writes; else delete it"


class SandboxStopped(Refused):
    kind = "sandbox-stopped"
    message = "sandbox {id} is {state}{why}"
    hint = "restart it (`takeback sandbox wake`) if its files were kept, put it to a snapshot, or make a new one"


class ProcessRunning(Refused):
    kind = "process-running"
    message = "process {id} still runs"
    hint = "wait for its end, or kill it"


class ProcessLimit(Refused):
    kind = "process-limit"
    message = "sandbox {id} has no room for another process: {why}"
    hint = "end some, or make a sandbox of its own for this"


class OtherKeeper(Refused):
    kind = "other-keeper"
    message = "takeback {theirs} keeps {count} running sandboxes of this data directory; this is takeback {ours}"
    hint = "delete or stop those with that version first, or set TAKEBACK_HOME to another place"


class NotAPerson(Refused):
    kind = "not-a-person"
    http_status = 403
    message = "only a person may do this: {why}"
    hint = "a person does it in a terminal of their own; a hold also with --token, which the notification command gets"


class WrongToken(Refused):
    kind = "wrong-token"
    http_status = 403
    message = "this token approves nothing: {why}"
    hint = "each token is for one hold and works once; in a terminal of your own none is needed"


class HoldNotWaiting(Refused):
    kind = "hold-not-waiting"
    message = "{id} does not wait: {state}"
    hint = "`takeback holds --all` shows what became of it; nothing was run now"


class HoldStale(Refused):
    kind = "hold-stale"
    message = "{id} is not what was asked for any more: {changed}"
    hint = "nothing was run; have the agent ask again and look at the new hold"


class TaskExists(Refused):
    kind = "task-exists"
    message = "there is a task {id} already"
    hint = "choose another --id; `takeback show t:{id}` shows that one{more}"


class NoCommits(Refused):
    kind = "no-commits"
    message = "{root} has no commit a task could begin from"
    hint = "make a repository with a first commit: git init, git add, git commit"


class NoIdentity(Refused):
    kind = "no-identity"
    message = "git does not know whose commit this would be: {why}"
    hint = "git config --global user.name 'Your Name' && git config --global user.email you@example.com"


class BranchElsewhere(Refused):
    kind = "branch-elsewhere"
    message = "branch {branch} is checked out in {place}, whose files would no longer fit it"
    hint = "land on another branch with --onto, work there in place with --here, or switch that tree to another branch"


class DirtyTree(Refused):
    kind = "dirty-tree"
    message = "this tree has changes that are not committed: {paths}"
    hint = "commit or stash them, or leave out --here: then the task has a tree of its own"


class RedCheck(Refused):
    kind = "red-check"
    message = "the check `{cmd}` fails before the task has begun ({how}){tail}"
    hint = "mend it first, or go on with --allow-red: the check then says whether the task mended it"


class TaskLanded(Refused):
    kind = "task-landed"
    message = "task {id} has landed as commit {commit}: an undo of its steps would leave the commit"
    hint = "takeback revert {id}"


class RevertRefused(Refused):
    kind = "revert-refused"
    message = "task {id} was not reverted: {why}. Nothing was changed"
    hint = "{next}"


class Unable(TakebackError, group=True):
    kind = "unable"
    http_status = 503


class DiskFull(Unable):
    kind = "disk-full"
    http_status = 507
    message = "no space left on the disk of {path}; nothing was changed"
    hint = "free some space (`takeback gc`, `takeback du`) and repeat"


class Busy(Unable):
    retryable = True
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


class KeeperFailed(Unable):
    kind = "keeper-failed"
    message = "the keeper of the sandboxes did not start: {why}"
    hint = "its log: {log}"


class KeeperGone(Unable, group=True):
    """No answer came; the hosted client's `RuntimeConnectionError`."""

    retryable = True
    kind = "connection-error"
    message = "the keeper of the sandboxes went away during `{what}`"
    hint = "repeat it: the sandboxes go on and another keeper finds them again"


class StartFailed(Unable):
    kind = "start-failed"
    message = "the sandbox did not start: {why}"
    hint = "`takeback doctor` looks for the cause"


class Unsupported(Unable):
    kind = "unsupported"
    http_status = 501
    message = "not possible here: {what}"
    hint = "{next}"


class EngineFailed(Unable):
    kind = "engine-failed"
    message = "the engine could not {what}: {why}"
    hint = "`takeback doctor` looks for the cause"


class MachineGone(Unable):
    kind = "machine-gone"
    message = "sandbox {id} does not run any more: {why}"
    hint = "start a new one, or restore a snapshot of it"


class DownloadIncomplete(Unable):
    kind = "download-incomplete"
    message = "{path}: only {got} of {size} bytes came"
    hint = "the file changed or the sandbox stopped meanwhile; repeat"


class TerminalRefused(Unable):
    kind = "terminal-refused"
    message = "no terminal: {why}"
    hint = "name another command"


class CommandError(Unable, group=True):
    """Only from `exec(check=True)`; `exit_code`, `stdout` and `stderr` are the command's."""

    kind = "command-failed"
    message = "the command ended with exit code {code}: {tail}"
    hint = "its whole output is in .stdout and .stderr"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.stdout = str(fields.get("stdout", ""))
        self.stderr = str(fields.get("stderr", ""))
        # As the hosted client has it, although here it hides what `takeback` itself would end with.
        vars(self)["exit_code"] = fields.get("code")


class CommandTimeout(CommandError, group=True):
    kind = "command-timeout"
    http_status = 504
    message = "the command did not end within {seconds:g} s: {tail}"
    hint = "give it more time with timeout_ms"


class NeedsLinux(Unable):
    kind = "needs-linux"
    http_status = 501
    message = "machines need Linux; this is {system}"
    hint = "files can be taken back here; for machines, use takeback on a Linux machine or in a Linux VM"


class EngineMissing(Unable):
    kind = "engine-missing"
    message = "no `runsc` in {folder} or on PATH"
    hint = "`takeback setup` gets one"


class EngineTooOld(Unable):
    kind = "engine-too-old"
    message = "{path} is runsc {found}, older than {minimum}: {why}"
    hint = "`takeback setup` puts a newer one into takeback's own folder, beside yours"


class ToolMissing(Unable):
    kind = "tool-missing"
    message = "{what} needs `{tool}`, which is not on this machine"
    hint = "have these packages installed: {packages} (`takeback setup --yes` does it, as root on Debian)"


class ExtraMissing(Unable):
    kind = "extra-missing"
    message = "{what} needs the Python package {package}, which is not installed"
    hint = "install it into the environment of takeback: pip install 'takeback[{extra}]'"


class FetchFailed(Unable):
    kind = "fetch-failed"
    http_status = 502
    message = "{what} could not be fetched: {why}"
    hint = "nothing was changed; look at the network, the proxy and apt's sources, and repeat `takeback setup`"


class ImageBuildFailed(Unable):
    kind = "image-build-failed"
    message = "the image {name!r} could not be built: {why}"
    hint = "{next}"


class ImageFetchFailed(Unable):
    kind = "image-fetch-failed"
    http_status = 502
    message = "the image {name!r} could not be fetched: {why}"
    hint = "{next}"


class SupervisorMissing(Unable):
    kind = "supervisor-missing"
    message = "there is no supervisor for sandboxes: {why}"
    hint = "install gcc and libc6-dev (Debian: apt-get install gcc libc6-dev) and repeat"


class MachineSilent(Unable):
    kind = "machine-silent"
    message = "the sandbox does not answer: {why}"
    hint = "it may have run out of memory; go back to a snapshot of it, or delete it"


class NotStarted(Unable):
    kind = "not-started"
    http_status = 400
    message = "the sandbox could not start {program}: {why}"
    hint = "{next}"


class MachineRefused(Unable):
    kind = "machine-refused"
    http_status = 409
    message = "the sandbox could not do {what}: {why}"
    hint = "list its processes to see what is there"


class SetupFailed(Unable):
    kind = "setup-failed"
    http_status = 400
    message = "the set-up `{cmd}` of a task's tree failed ({how}){tail}"
    hint = "mend `setup` in the [task] section of .takeback.toml; the task was not begun"


class AgentMissing(Unable):
    kind = "agent-missing"
    message = "the agent {name} cannot be started: {why}"
    hint = "{next}"


class Damaged(TakebackError):
    kind = "damaged"
    message = "{what} is damaged: {detail}"
    hint = "{next}"


class SnapshotDamaged(Damaged):
    kind = "snapshot-damaged"
    message = "snapshot {snapshot} is damaged: {why}"
    hint = "nothing was started or stopped; take another snapshot, or restore an older one"


class NothingToDo(TakebackError):
    kind = "nothing-to-do"
    http_status = 409
    message = "{sentence}"
    hint = "{next}"


def all_errors() -> list[type[TakebackError]]:
    """Every error class, parents before children, for the documentation table and its test."""
    return [one for one in globals().values() if isinstance(one, type) and issubclass(one, TakebackError)]
