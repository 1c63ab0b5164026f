"""The supervisor's binary, by content, in the data directory: the shipped one, or one compiled here.

Does not cover: what it does (see loop.c and docs/formats/channel.md), or how a wheel gets its binary (hatch_build.py).
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from pathlib import Path

from takeback.errors import SupervisorMissing
from takeback.host import atomic, process
from takeback.machines.layout import MachinesDir
from takeback.machines.supervisor import sources

NAME = "init"
_COMPILE_S = 120.0


def supervisor_binary(machines: MachinesDir) -> Path:
    """Return DATA/machines/supervisor/SHA256/init, putting it there first if it is not yet.

    The SHA-256 is of the binary, so that a snapshot finds exactly its own; the folder holds nothing else, for it is
    seen inside as /.takeback. Raises SupervisorMissing when none was shipped and none can be compiled.
    """
    shipped = sources.SHIPPED / platform.machine() / NAME
    if shipped.is_file():
        return _put(machines, shipped.read_bytes())
    noted = machines.supervisors / f"compiled-{platform.machine()}-{sources.digest()}"
    try:
        known = machines.supervisors / noted.read_text() / NAME
        if _is(known, noted.read_text()):
            return known
    except OSError:
        pass
    machines.supervisors.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=machines.supervisors, prefix=".tmp-") as folder:
        binary = _put(machines, compile_supervisor(Path(folder) / NAME).read_bytes())
    atomic.write_bytes(noted, binary.parent.name.encode(), durable=False)
    return binary


def compile_supervisor(into: Path, *flags: str) -> Path:
    """Compile the supervisor for this machine to the file `into` and return it; `flags` are added.

    Raises SupervisorMissing with what is missing or what the compiler said.
    """
    compiler = next((found for name in sources.COMPILERS if (found := shutil.which(name))), None)
    if platform.system() != "Linux":
        raise SupervisorMissing(why=f"it is for Linux, this is {platform.system()}")
    if compiler is None:
        raise SupervisorMissing(why="this installation came without it and there is no C compiler")
    running = process.start(sources.command(compiler, into, *flags), env=process.clean_environment())
    done = running.finish(_COMPILE_S)
    if done.code != 0:
        said = done.err.decode(errors="replace").strip().splitlines()
        raise SupervisorMissing(why=f"{compiler} failed: {said[-1] if said else done.code}")
    return into


def _put(machines: MachinesDir, content: bytes) -> Path:
    """Put the binary at its place; two who do so at once both find it whole."""
    digest = hashlib.sha256(content).hexdigest()
    place = machines.supervisors / digest
    if _is(place / NAME, digest):
        return place / NAME
    machines.supervisors.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=machines.supervisors, prefix=".tmp-"))
    try:
        atomic.write_bytes(fresh / NAME, content)
        os.chmod(fresh / NAME, 0o755)
        os.chmod(fresh, 0o755)
        try:
            os.rename(fresh, place)
        except OSError:
            # Another process was first, or what is there is spoiled: the file alone is replaced, in one step.
            if not _is(place / NAME, digest):
                place.mkdir(exist_ok=True)
                os.replace(fresh / NAME, place / NAME)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return place / NAME


def _is(path: Path, digest: str) -> bool:
    try:
        return os.access(path, os.X_OK) and hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:
        return False
