"""The only code that spells apt: packages fetched without touching the system.

All of apt's state (lists, caches, which packages are installed) is in a folder of its own that goes away; signatures
are checked with the keys the user's sources name; proxies, certificates and passwords are the user's too. Works as root
and as an ordinary user.

Does not cover: from which mirror (`apt_sources`), what is fetched, and keeping it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from takeback.errors import DiskFull, FetchFailed
from takeback.host import process, tools
from takeback.host.apt_sources import Source

_UPDATE_SECONDS = 300.0
_DOWNLOAD_SECONDS = 900.0
_ASK_SECONDS = 30.0
# Of the user's Acquire:: options: not how indexes are kept, and nothing that would let an unsigned source pass.
_NOT_TAKEN = ("IndexTargets", "Changelogs", "Languages", "CompressionTypes", "GzipIndexes", "Allow")


def is_here() -> bool:
    """Whether this machine has apt and dpkg."""
    return tools.have("apt-get", "apt-config", "apt-cache", "dpkg-deb")


def options() -> str:
    """Return the user's own `Acquire::` options (proxies, certificates, ...) and where passwords are, as apt.conf."""
    kept = ['Dir::Etc::netrc "/etc/apt/auth.conf";', 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";']
    for line in _run(["apt-config", "dump"], tools.environment(), _ASK_SECONDS).splitlines():
        if line.startswith("Acquire::") and not line.removeprefix("Acquire::").startswith(_NOT_TAKEN):
            kept.append(line)
    return "\n".join(kept) + "\n"


class PrivateApt:
    """apt with nothing but some sources, in a folder that goes away; made by `private`."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self._env = env

    def update(self) -> None:
        """Fetch and verify the lists. Raises FetchFailed."""
        _run(["apt-get", "-q", "update", "--error-on=any"], self._env, _UPDATE_SECONDS)

    def versions(self, package: str) -> list[str]:
        """Return the versions there are for this machine, in apt's order."""
        rows = _run(["apt-cache", "madison", package], self._env, _ASK_SECONDS).splitlines()
        return [row.split("|")[1].strip() for row in rows if row.count("|") >= 2]

    def depends(self, package: str) -> list[str]:
        """Return the packages that one needs, by name; of alternatives the first."""
        rows = _run(["apt-cache", "depends", package], self._env, _ASK_SECONDS).splitlines()
        return [row.split(":", 1)[1].strip() for row in rows if row.strip().startswith(("Depends:", "PreDepends:"))]

    def unpack(self, package: str, into: Path, *, version: str = "") -> str:
        """Fetch and verify a package and unpack its files into a folder; return its version. Raises FetchFailed."""
        fetched = self._folder / "fetched"
        name = f"{package}={version}" if version else package
        _run(["apt-get", "-q", "download", name], self._env, _DOWNLOAD_SECONDS, cwd=fetched)
        file = next(iter(sorted(fetched.glob(f"{package}_*.deb"))), None)
        if file is None:
            raise FetchFailed(what=package, why="apt-get download left no file")
        _run(["dpkg-deb", "--extract", str(file), str(into)], self._env, _ASK_SECONDS * 4)
        found = _run(["dpkg-deb", "--field", str(file), "Version"], self._env, _ASK_SECONDS).strip()
        file.unlink()
        return found


@contextmanager
def private(wanted: Sequence[Source]) -> Iterator[PrivateApt]:
    """Give an apt that knows these sources only. Raises FetchFailed."""
    folder = Path(tempfile.mkdtemp(prefix="takeback-apt-"))
    try:
        for name in ("lists/partial", "cache/archives/partial", "fetched"):
            (folder / name).mkdir(parents=True)
        _let_apt_in(folder)
        (folder / "sources.list").write_text("".join(f"{one.line()}\n" for one in wanted), encoding="utf-8")
        (folder / "status").write_text("")
        # Read before the system's files, and names others in their place: their hooks remove files of the system's.
        (folder / "apt.conf").write_text(
            'Dir::Etc::parts "/dev/null";\nDir::Etc::main "/dev/null";\nDir::Etc::preferences "/dev/null";\n'
            'Dir::Etc::preferencesparts "/dev/null";\nDir::Etc::sourceparts "/dev/null";\n'
            f'Dir::Etc::sourcelist "{folder}/sources.list";\nDir::State::lists "{folder}/lists";\n'
            f'Dir::State::status "{folder}/status";\nDir::Cache "{folder}/cache";\nDir::Log "{folder}";\n'
            'Acquire::Languages "none";\n' + options(),
            encoding="utf-8",
        )
        yield PrivateApt(folder, {**tools.environment(), "APT_CONFIG": str(folder / "apt.conf")})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _let_apt_in(folder: Path) -> None:
    """As root, apt fetches as the user `_apt`, who must get at the folder."""
    if os.geteuid() != 0:
        return
    os.chmod(folder, 0o755)
    try:
        account = pwd.getpwnam("_apt")
    except KeyError:
        return
    for name in ("lists/partial", "cache/archives/partial", "fetched"):
        os.chown(folder / name, account.pw_uid, -1)


def install(packages: Sequence[str]) -> None:
    """Install packages into the user's system, as root and only when a person said so. Raises FetchFailed."""
    _run(["apt-get", "-q", "update"], tools.environment(), _UPDATE_SECONDS)
    argv = ["apt-get", "-q", "install", "-y", "--no-install-recommends", *packages]
    _run(argv, tools.environment(), _DOWNLOAD_SECONDS)


def _run(argv: Sequence[str], env: dict[str, str], timeout: float, *, cwd: Path | None = None) -> str:
    what = " ".join(argv[:2])
    try:
        done = process.start(argv, env=env, cwd=os.fspath(cwd or "/")).finish(timeout)
    except FileNotFoundError:
        raise FetchFailed(what=what, why=f"no `{argv[0]}` on this machine") from None
    except subprocess.TimeoutExpired:
        raise FetchFailed(what=what, why=f"it did not end within {timeout:g} s") from None
    if done.code != 0:
        said = done.err.decode("utf-8", "replace").strip().splitlines()
        if any("No space left on device" in line for line in said):
            raise DiskFull(path=tempfile.gettempdir() if cwd is None else os.fspath(cwd))
        lines = [line for line in said if line.startswith("E:")] or said[-3:] or [f"exit code {done.code}"]
        raise FetchFailed(what=what, why=" ".join(lines))
    return done.out.decode("utf-8", "replace")
