"""Which files make the supervisor and how they are compiled; the build of a wheel reads this file by itself.

Hence it imports nothing of takeback. Does not cover: running the compiler (see `build`, and hatch_build.py).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SHIPPED = FOLDER / "bin"  # MACHINE/init, only in wheels

# Static, because an image may have no C library, or another one than the host.
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-static", "-s")
STRICT = ("-Werror",)  # for our own tests; another compiler's new warning must not keep anyone from installing

COMPILERS = ("cc", "gcc", "clang")
# By the name uname(2) gives the processor.
CROSS_COMPILERS = {"x86_64": ("x86_64-linux-gnu-gcc",), "aarch64": ("aarch64-linux-gnu-gcc",)}


def sources() -> list[Path]:
    """The .c files, sorted."""
    return sorted(FOLDER.glob("*.c"))


def digest() -> str:
    """SHA-256 over the flags and all .c and .h files with their names, in hex."""
    summed = hashlib.sha256(repr(FLAGS).encode())
    for path in sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")]):
        content = path.read_bytes()
        summed.update(f"{path.name} {len(content)}\n".encode())
        summed.update(content)
    return summed.hexdigest()


def command(compiler: str, into: Path, *more: str) -> list[str]:
    """The command line that compiles the supervisor to the file `into`."""
    return [compiler, *FLAGS, *more, "-o", str(into), *map(str, sources())]
