"""Make tests/golden/store-v1.tar.gz: run once per format version, never again for an old one.

    python tests/golden/make_store.py OUTPUT.tar.gz

The archive holds `data/` (a whole data directory) and `expected.json`: what each checkpoint must give back, as
written down before takeback was asked to save it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ODD = [b"caf\xe9.txt", b'ne\nw"q.txt', b"%meta", "\u516c\u5171.cpp".encode()]


def describe(root: bytes) -> dict[str, list[object]]:
    """Return path (latin-1) -> [octal mode, mtime_ns, content or target (latin-1)] of everything but `.git`."""
    found: dict[str, list[object]] = {}
    for folder, dirs, files in os.walk(root):
        if os.path.relpath(folder, root).split(b"/")[0] == b".git":
            continue
        for name in [*dirs, *files]:
            path = os.path.join(folder, name)
            inner = os.path.relpath(path, root)
            if inner.split(b"/")[0] == b".git":
                continue
            seen = os.lstat(path)
            content = ""
            if os.path.islink(path):
                content = os.readlink(path).decode("latin-1")
            elif name in files:
                with open(path, "rb") as file:
                    content = file.read().decode("latin-1")
            time = 0 if os.path.isdir(path) and not os.path.islink(path) else seen.st_mtime_ns
            found[inner.decode("latin-1")] = [f"{seen.st_mode:o}", time, content]
    return found


def git(root: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True, text=True).stdout


def describe_git(root: Path) -> dict[str, str]:
    """Return what must come back of a repository's own state."""
    return {
        "index": git(root, "ls-files", "-s", "-v"),
        "refs": git(root, "for-each-ref", "--format=%(objectname) %(refname)"),
        "head": git(root, "symbolic-ref", "HEAD"),
        "stash": git(root, "stash", "list", "--format=%H %gs"),
    }


def scenario(root: Path, tb: object) -> dict[str, object]:
    """Make the project, take its checkpoints with `tb(*args)`, and return what each must give back."""
    assert callable(tb)
    expected: dict[str, object] = {}

    def keep(id: str) -> None:
        expected[id] = {"tree": describe(os.fsencode(root)), "git": describe_git(root)}

    git(root, "init", "-q")
    (root / ".gitignore").write_text("*.log\n.env\nbuild/\n")
    (root / "src").mkdir()
    (root / "src/app.py").write_bytes(b"print('one')\r\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    os.chmod(root / "run.sh", 0o750)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "tag", "-a", "v1", "-m", "one")
    (root / ".env").write_text("SECRET=1\n")
    os.chmod(root / ".env", 0o600)
    (root / "build").mkdir()
    (root / "build/out.bin").write_bytes(bytes(range(256)))
    (root / "empty").mkdir(mode=0o711)
    os.symlink("nowhere", root / "dangling")
    for name in ODD:
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(name * 3)
    (root / "src/app.py").write_text("staged\n")
    git(root, "add", "src/app.py")
    (root / "src/app.py").write_text("staged\nand not\n")
    (root / "run.sh").write_text("#!/bin/sh\necho stashed\n")
    git(root, "stash", "push", "-q", "-m", "kept aside", "run.sh")
    os.utime(root / "src/app.py", ns=(1, 1_000_000_000_123_456_789))
    keep(tb("checkpoint", "-m", "first")["id"])
    tb("run", "--", "rm -rf src .env; git add -A; git commit -qm agent --author 't <t@localhost>'; chmod 600 run.sh")
    keep(tb("checkpoint", "-m", "after the agent")["id"])
    tb("undo")
    return expected


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as text:
        top = Path(text)
        root, data = top / "project", top / "data"
        root.mkdir()
        env = {**os.environ, "HOME": text, "TAKEBACK_HOME": os.fspath(data)}
        env |= {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@localhost"}

        def tb(*args: str) -> dict[str, object]:
            head, *rest = args
            done = subprocess.run(
                [sys.executable, "-m", "takeback", head, "--json", *rest],
                cwd=root, env=env, check=True, capture_output=True,
            )  # fmt: skip
            return dict(json.loads(done.stdout))

        expected = scenario(root, tb)
        for link in data.rglob("*.lock"):
            link.unlink()
        (top / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True))
        with tarfile.open(sys.argv[1], "w:gz") as archive:
            archive.add(data, "data")
            archive.add(top / "expected.json", "expected.json")


if __name__ == "__main__":
    main()
