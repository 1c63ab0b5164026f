"""Makes the repository that the benchmarks run on: the same bytes for the same size and seed, on every machine.

Does not cover: odd names, links and modes (the tests do). As a program: `python bench/generate.py DIR [FILES]`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

PER_DIRECTORY = 20
_WORDS = [
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon",
    "value = compute(left, right)",
    "for item in items:",
    "    if item.ready and not item.done:",
    "        return transform(item, depth + 1)",
    "# nothing to see here, the code below says it all",
    "",
    "class Handler(Base):",
    "    def handle(self, request: Request) -> Response:",
]


def paths(files: int) -> list[str]:
    """Return the relative paths of a tree of `files` files, 20 to a directory, directories nested three deep."""
    found = []
    for number in range(files):
        directory = number // PER_DIRECTORY
        found.append(f"area{directory % 12:02}/part{directory // 12 % 15:02}/unit{directory:04}/module_{number:05}.py")
    return found


def content(number: int, seed: int = 1) -> bytes:
    """Return the bytes of one file: text of 200 bytes to about 8 KiB, mostly small."""
    chance = random.Random(seed * 1_000_003 + number)
    lines = min(int(chance.expovariate(1 / 55)) + 5, 250)
    return "\n".join([f"# module {number}", *chance.choices(_WORDS, k=lines), ""]).encode()


def write(root: str, files: int, seed: int = 1) -> list[str]:
    """Write the tree below `root` and return its paths."""
    made = paths(files)
    for directory in {os.path.dirname(path) for path in made}:
        os.makedirs(os.path.join(root, directory), exist_ok=True)
    for number, path in enumerate(made):
        with open(os.path.join(root, path), "wb") as file:
            file.write(content(number, seed))
    return made


def commit(root: str) -> None:
    """Make the tree a git repository of one commit, packed as a repository of some age is."""
    env = {
        **os.environ,
        "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "gc.auto=0")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        (*identity, "commit", "-q", "-m", "generated"),
        ("repack", "-adq"),
        ("prune-packed", "-q"),
    ):
        subprocess.run(["git", *arguments], cwd=root, env=env, check=True)


def repository(root: str, files: int, seed: int = 1) -> list[str]:
    """Write and commit the tree and return its paths."""
    os.makedirs(root, exist_ok=True)
    made = write(root, files, seed)
    commit(root)
    return made


if __name__ == "__main__":
    print(len(repository(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50_000)), "files")
