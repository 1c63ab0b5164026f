"""Scripts and targets of the project are looked into where their text is given."""

from __future__ import annotations

import pytest

from takeback.guard import Context
from tests.guard.conftest import cls

PACKAGE = """{"scripts": {"lint": "eslint src", "fix": "eslint --fix src", "prefix": "rm -rf dist", "ship": "git push",
"test": "jest", "loop": "npm run loop"}}"""
MAKEFILE = """V = 1

all: fmt

fmt:
\t@black src

ship: fmt
\tgit push

clean:
\trm -rf build

x: ; git push

var:
\trm -rf $(D)
"""
FILES = {
    "package.json": PACKAGE,
    "Makefile": MAKEFILE,
    "justfile": "default: fmt\n\nfmt:\n    black src\n\nship: fmt\n    @git push\n",
    "a.sh": "#!/bin/sh\nset -e\nrm -rf src\n",
    "b.sh": "git push\n",
    "c": "#!/usr/bin/env bash\n. ./b.sh\n",
    "deploy.py": "print(1)\n",
    "sub/package.json": '{"scripts": {"lint": "git push"}}',
    "broken/package.json": "{",
}
CONTEXT = Context(read=FILES.get)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("npm run lint", "none"),
        ("npm run fix", "state"),  # `prefix` runs before it
        ("npm run ship", "outside"),
        ("npm test", "machine"),
        ("npm run loop", "outside"),
        ("npm run missing", "machine"),
        ("npm run", "none"),
        ("npm --prefix sub run lint", "outside"),
        ("npm --prefix broken run lint", "machine"),
        ("cd sub && yarn lint", "outside"),
        ("pnpm run lint", "none"),
        ("bun run ship", "outside"),
        ("make", "files"),
        ("make fmt", "files"),
        ("make ship", "outside"),
        ("make clean fmt", "state"),
        ("make x", "outside"),
        ("make var", "machine"),
        ("make missing", "machine"),
        ("make -f other.mk", "machine"),
        ("just", "files"),
        ("just ship", "outside"),
        ("bash a.sh", "files"),
        ("./a.sh", "files"),
        ("sh b.sh", "outside"),
        ("./c", "outside"),
        ("source b.sh", "outside"),
        ("cat b.sh | bash", "outside"),
        ("bash < a.sh", "files"),
        ("cd /tmp && ./a.sh", "machine"),
        ("python deploy.py", "outside"),
        ("python other.py", "machine"),
    ],
)
def test_what_a_script_or_target_runs_counts(source: str, expected: str) -> None:
    assert cls(source, CONTEXT) == expected
