"""Which project's policy a person has accepted: one small file a project in takeback's own data.

    DATA/trust/KEY.json     {"root": .., "digest": SHA-256 of the policy's file, "at_ns": ..}, mode 0600

A record counts while the file is byte for byte what was accepted. Does not cover: who may accept (`app.trusting`).
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from takeback.errors import CannotWrite

_LONGEST = 1 << 16


def is_trusted(data: Path, root: bytes, digest: str) -> bool:
    """Whether the policy of the project at `root`, with these contents, was accepted; in doubt it was not."""
    if not digest:
        return False
    try:
        with open(_record(data, root), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                return False
            record = json.loads(file.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and (record.get("root"), record.get("digest")) == (_name(root), digest)


def accept(data: Path, root: bytes, digest: str, at_ns: int) -> None:
    """Record that these contents were accepted. Raises CannotWrite."""
    from takeback.host import atomic  # who only asks what is trusted writes nothing

    path = _record(data, root)
    try:
        os.makedirs(data, mode=0o700, exist_ok=True)
        os.makedirs(path.parent, mode=0o700, exist_ok=True)
        record = {"root": _name(root), "digest": digest, "at_ns": at_ns}
        atomic.write_bytes(path, json.dumps(record).encode())
    except OSError as error:
        next = "make takeback's data directory writable"
        raise CannotWrite(path=os.fspath(path), why=error.strerror, next=next) from error


def forget(data: Path, root: bytes) -> bool:
    """Forget what was accepted; whether there was anything. Raises CannotWrite."""
    path = _record(data, root)
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        next = "make takeback's data directory writable"
        raise CannotWrite(path=os.fspath(path), why=error.strerror, next=next) from error
    return True


def _record(data: Path, root: bytes) -> Path:
    import hashlib

    return data / "trust" / f"{hashlib.sha256(os.path.realpath(root)).hexdigest()[:20]}.json"


def _name(root: bytes) -> str:
    return os.fsdecode(os.path.realpath(root)).encode("utf-8", "backslashreplace").decode()
