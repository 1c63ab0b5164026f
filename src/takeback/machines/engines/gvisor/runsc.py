"""The command line of runsc: the one place that spells it. Every call ends within a time limit.

Does not cover: the control socket (`control`), what is in a bundle (`spec`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from takeback.errors import EngineFailed
from takeback.host import process

_QUICK = 20.0
_LOG_CAP = 64 << 10
IMAGE_FILES = ("checkpoint.img", "pages_meta.img", "pages.img")


@dataclass(frozen=True)
class Started:
    """What `create` made: the processes' numbers and where the sandbox listens."""

    sandbox: int
    gofer: int
    socket: Path


class Runsc:
    """One runsc binary with one state folder.

    Flags before the command must be the same when a machine is restored as when it was made: only the platform and
    the overlay differ between machines, the first recorded in snapshots, the second part of the spec.
    """

    def __init__(self, binary: Path, state: Path) -> None:
        self.binary = binary
        self.state = state
        self._version = ""
        self._asked: tuple[int, ...] = ()  # of which file

    def version(self) -> str:
        """Return `0.0~20240729.0` or the like, of the file that is there now: a package may be upgraded at any time.

        Raises EngineFailed.
        """
        try:
            found = os.stat(self.binary)
        except OSError as error:
            raise EngineFailed(what="tell its version", why=str(error)) from error
        asked = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if asked != self._asked:
            answer = self._run([os.fspath(self.binary), "--version"], "tell its version", _QUICK)
            said = re.match(rb"runsc version (\S+)", answer)
            if not said:
                raise EngineFailed(what="tell its version", why=f"{self.binary} is no runsc")
            self._version, self._asked = said.group(1).decode(), asked
        return self._version

    def create(
        self, container: str, bundle: Path, log: Path, *, overlay: str, platform: str, stdio: tuple[int, int],
        wrapper: Sequence[str] = (), timeout: float = _QUICK,
    ) -> Started:  # fmt: skip
        """Make a sandbox that runs nothing yet; `stdio` are stdin and stdout of its PID 1 (stderr goes nowhere).

        `wrapper` is put before the command. Raises EngineFailed; processes may then be left (`containers.clear`).
        """
        argv = [*wrapper, *self._argv(log, overlay, platform), "create", f"--bundle={bundle}", container]
        null = os.open(os.devnull, os.O_RDWR)
        try:
            # A pipe for stderr would be the guest's too and fill up: errors are read from the log.
            child = process.start(
                argv, env=process.clean_environment(), cwd="/",
                stdin=stdio[0], stdout=stdio[1], stderr=null,
            )  # fmt: skip
            try:
                done = child.finish(timeout, kill=True)
            except process.TimeoutExpired:
                raise EngineFailed(what="make a sandbox", why=f"no answer within {timeout:g} s") from None
        finally:
            os.close(null)
        if done.code != 0:
            raise EngineFailed(what="make a sandbox", why=last_error(log) or f"exit code {done.code}")
        return self._started(container)

    def _started(self, container: str) -> Started:
        path = self.state / f"{container}_sandbox:{container}.state"
        try:
            found = json.loads(path.read_bytes())
            sandbox = found["sandbox"]
            socket = Path(sandbox.get("controlSocketPath") or self.state / f"runsc-{container}.sock")
            return Started(int(sandbox["pid"]), int(found["goferPid"]), socket)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EngineFailed(what="make a sandbox", why=f"its state file cannot be read: {error!r}") from error

    # The commands below do what `control` does, for builds whose control socket was not verified.

    def start(self, container: str, log: Path, overlay: str, platform: str, timeout: float) -> None:
        self._run([*self._argv(log, overlay, platform), "start", container], "start a sandbox", timeout)

    def checkpoint(self, container: str, log: Path, overlay: str, platform: str, image: Path, timeout: float) -> None:
        """Save into a new empty folder. Never without --leave-running: a refusal would kill the source."""
        argv = [
            *self._argv(log, overlay, platform),
            "checkpoint", "--leave-running", "--compression=none", f"--image-path={image}", container,
        ]  # fmt: skip
        self._run(argv, "save a sandbox", timeout)

    def restore(
        self, container: str, bundle: Path, log: Path, overlay: str, platform: str, image: Path, timeout: float
    ) -> None:
        """Restore into a created sandbox."""
        argv = [
            *self._argv(log, overlay, platform),
            "restore", "--detach", f"--bundle={bundle}", f"--image-path={image}", container,
        ]  # fmt: skip
        self._run(argv, "restore a sandbox", timeout)

    def pause(self, container: str, log: Path, overlay: str, platform: str, timeout: float) -> None:
        self._run([*self._argv(log, overlay, platform), "pause", container], "pause a sandbox", timeout)

    def resume(self, container: str, log: Path, overlay: str, platform: str, timeout: float) -> None:
        self._run([*self._argv(log, overlay, platform), "resume", container], "resume a sandbox", timeout)

    def status(self, container: str) -> str:
        """Return what runsc itself wrote down last: `running`, `paused`, ... Empty when it knows nothing."""
        try:
            found = json.loads((self.state / f"{container}_sandbox:{container}.state").read_bytes())
            return str(found["status"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def forget(self, container: str) -> None:
        """Remove what runsc wrote about a container that does not run any more."""
        names = [f"{container}_sandbox:{container}.state", f"{container}_sandbox:{container}.lock"]
        for path in [self.state / name for name in (*names, f"runsc-{container}.sock")]:
            path.unlink(missing_ok=True)

    def known(self) -> set[str]:
        """Return the ids of all containers the state folder knows."""
        try:
            names = os.listdir(self.state)
        except FileNotFoundError:
            return set()
        return {name.partition("_sandbox:")[0] for name in names if name.endswith((".state", ".lock"))}

    def _argv(self, log: Path, overlay: str, platform: str) -> list[str]:
        return [
            os.fspath(self.binary),
            f"--root={self.state}",
            "--network=none",
            f"--platform={platform}",
            f"--overlay2={overlay}",
            # Without an overlay of its own it would keep size and content of a file by name: one written through a
            # hard link was read short by its other name.
            *(["--file-access=shared"] if overlay == "none" else []),
            "--ignore-cgroups",  # ours are joined before it starts (`limits`)
            f"--log={log}",
            "--log-format=json",
            f"--panic-log={log.parent / 'panic.log'}",
        ]

    def _run(self, argv: Sequence[str], what: str, timeout: float) -> bytes:
        try:
            done = process.start(argv, env=process.clean_environment(), cwd="/").finish(timeout, kill=True)
        except process.TimeoutExpired:
            raise EngineFailed(what=what, why=f"no answer within {timeout:g} s") from None
        except OSError as error:
            raise EngineFailed(what=what, why=str(error)) from error
        if done.code != 0:
            raise EngineFailed(what=what, why=done.err.decode("utf-8", "replace").strip()[-500:])
        return done.out


def last_error(log: Path) -> str:
    """Return the newest message of level error in a JSON log; empty when there is none."""
    try:
        with open(log, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _LOG_CAP, 0))
            lines = file.read().splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("level") in ("error", "fatal"):
            return str(entry.get("msg", ""))[:500]
    return ""
