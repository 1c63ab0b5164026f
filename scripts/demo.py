"""The main job on a real repository: damage, undo, and a proof by a fingerprint that shares no code with takeback.

Started by `scripts/demo`. Everything happens in a temporary directory, which is gone at the end. Exit code 1 when
anything came back differently. Does not compare: owners, extended attributes, hard links, reflogs but the stash's.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
Fingerprint = dict[str, tuple[object, ...]]

# What the agent does, in this order; each is one `takeback run`.
STEPS = [
    "find . -name '*.py' -not -path './.git/*' -exec sed -i 's/return/retrun/' {} +",
    "chmod -R 777 src tests windows.txt",
    "rm -rf src",
    "echo TOKEN= > .env; chmod 644 .env",
    "python -c \"import sqlite3; sqlite3.connect('var/data.db').execute('DROP TABLE customers')\"",
    "cd vendored && echo broken > lib.c && git add lib.c && rm README",
    "rm link; echo 'a file where a link was' > link; rmdir empty",
    "git add -A && git commit -q -m 'fix everything'",
    "git reset -q --hard HEAD~2",
    "git stash drop -q",
    "git branch -q -D experiment",
    "git clean -q -ffdx",
    "rm -rf .git",
]


class World:
    """A private home, the project in it, and the commands that run there."""

    def __init__(self, top: Path) -> None:
        self.project = top / "project"
        self.data = top / "takeback"
        self.clock = top / "clock"
        home = top / "home"
        home.mkdir()
        # `safe`: root may show a clone that belongs to a user. The last line: a junk commit needs an author.
        (home / ".gitconfig").write_text(
            "[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n[user]\n\tname = Demo\n\temail = demo@localhost\n"
        )
        (home / "bin").mkdir()
        (home / "bin" / "python").symlink_to(sys.executable)
        self.env = {
            "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TAKEBACK_HOME": str(self.data),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def call(self, *argv: str, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run a program to its end and return what it said."""
        done = subprocess.run(argv, cwd=cwd or self.project, env=self.env, capture_output=True, check=False)
        if check and done.returncode != 0:
            sys.exit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}")
        return done

    def git(self, *args: str, cwd: Path | None = None) -> bytes:
        return self.call("git", *args, cwd=cwd).stdout

    def takeback(self, *args: str, cwd: Path | None = None) -> dict[str, Any]:
        """Run the real command and return its JSON."""
        said = self.call(sys.executable, "-m", "takeback", args[0], "--json", *args[1:], cwd=cwd, check=False)
        result: dict[str, Any] = json.loads(said.stdout or b"{}")
        if "error" in result or not result:
            sys.exit(f"takeback {' '.join(args)}: {result or said.stderr.decode(errors='replace')}")
        return result

    def step(self, command: str) -> tuple[dict[str, Any], float]:
        """Run shell source as one step; return its result and the milliseconds that were not the command's own."""
        timed = f"began=$(date +%s%N); ( {command} ); code=$?; echo $began $(date +%s%N) >{self.clock}; exit $code"
        result = self.takeback("run", "-m", command, "--", timed)
        began, ended = map(int, self.clock.read_text().split())
        if result["exit"] != 0:
            sys.exit(f"the agent's own command failed with {result['exit']}: {command}")
        return result, result["ms"] - (ended - began) / 1e6


def make_project(world: World) -> None:
    """Copy this repository and add what other tools lose."""
    root = world.project
    if (TOP / ".git").exists():
        world.git("clone", "-q", "--no-hardlinks", str(TOP), str(root), cwd=TOP)
    else:
        left_out = shutil.ignore_patterns(".cache", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")
        shutil.copytree(TOP, root, symlinks=True, ignore=left_out)
        world.git("init", "-q")
        world.git("add", "-A")
        world.git("commit", "-q", "-m", "a copy")
    world.git("switch", "-q", "-c", "work")
    for number in (1, 2):
        (root / "NOTES").write_text(f"{number}\n")
        world.git("add", "NOTES")
        world.git("commit", "-q", "-m", f"note {number}")
    world.git("branch", "experiment")
    (root / "README.md").write_bytes((root / "README.md").read_bytes() + b"for the stash\n")
    world.git("stash", "push", "-q", "-m", "half an idea")

    (root / ".gitignore").write_bytes((root / ".gitignore").read_bytes() + b".env\nvar/\n")
    (root / ".env").write_text("TOKEN=hunter2\n")
    (root / ".env").chmod(0o600)
    (root / "var").mkdir()
    leave_wal(root / "var" / "data.db", world)
    notes = root / "NOTES"
    notes.write_text("staged\n")
    world.git("add", "NOTES")
    notes.write_text("staged\nand not staged\n")
    (root / "windows.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "untracked file").write_text("nobody committed me\n")
    (root / "empty").mkdir(mode=0o700)
    (root / "link").symlink_to("src/takeback")
    (root / "dangling").symlink_to("not/there")
    nested = root / "vendored"
    nested.mkdir()
    (nested / "lib.c").write_text("int one;\n")
    (nested / "README").write_text("a repository of its own\n")
    world.git("init", "-q", cwd=nested)
    world.git("add", "-A", cwd=nested)
    world.git("commit", "-q", "-m", "vendored", cwd=nested)
    (nested / "lib.c").write_text("int one, two;\n")
    for number, path in enumerate(sorted(root.rglob("*"), reverse=True)):
        if ".git" not in path.relative_to(root).parts:
            then = 1_500_000_000_123_456_789 + number * 1_000_000_007
            os.utime(path, ns=(then, then), follow_symlinks=False)
    world.git("update-index", "-q", "--refresh", cwd=nested)


def leave_wal(path: Path, world: World) -> None:
    """Make a database whose last rows are only in its write-ahead log, as a crashed program leaves it."""
    program = (
        f"import os, sqlite3; db = sqlite3.connect({str(path)!r}); db.execute('PRAGMA journal_mode=WAL');"
        "db.execute('CREATE TABLE customers (name)'); db.executemany('INSERT INTO customers VALUES (?)',"
        "[(str(n),) for n in range(500)]); db.commit(); os._exit(0)"
    )
    world.call(sys.executable, "-c", program)
    # Shared memory, which SQLite makes again from the log; a checkpoint leaves it out.
    path.with_name("data.db-shm").unlink()
    if not path.with_name("data.db-wal").stat().st_size:
        sys.exit("the write-ahead log is empty: the demo would prove less than it says")


def fingerprint(world: World) -> Fingerprint:
    """Return everything that must come back: paths with type, mode, mtime and content; index, refs, stash, settings."""
    root = world.project
    found: Fingerprint = {}
    waiting = [str(root)]
    while waiting:
        path = waiting.pop()
        name = os.path.relpath(path, root)
        info = os.lstat(path)
        content = ""
        if stat.S_ISREG(info.st_mode):
            content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        elif stat.S_ISLNK(info.st_mode):
            content = os.readlink(path)
        found[name] = (oct(info.st_mode), info.st_mtime_ns, content)
        if stat.S_ISDIR(info.st_mode):
            waiting += [os.path.join(path, one) for one in os.listdir(path) if one != ".git"]
    for repository in (root, root / "vendored"):
        found.update(git_fingerprint(world, repository))
    return found


def git_fingerprint(world: World, repository: Path) -> Fingerprint:
    """Return what git itself says of a repository, and the bytes of its settings and hooks."""
    name = os.path.relpath(repository, world.project)
    found: Fingerprint = {}
    if not (repository / ".git").is_dir():
        return found
    questions = {
        "HEAD": ("rev-parse", "HEAD", "--symbolic-full-name", "HEAD"),
        "refs": ("for-each-ref",),
        "stash": ("log", "-g", "--format=%H %gs", "refs/stash", "--"),
        "index": ("ls-files", "-s", "-v"),
        "status": ("status", "--porcelain", "--ignored"),
        "commits": ("log", "--all", "--format=%H %T"),
    }
    for key, question in questions.items():
        done = world.call("git", "--no-optional-locks", *question, cwd=repository, check=False)
        for number, line in enumerate(done.stdout.decode(errors="backslashreplace").splitlines()):
            found[f"{name}: git {key} {number}"] = (line,)
    for part in ("config", "hooks", "info"):
        top = repository / ".git" / part
        for path in [top, *sorted(top.rglob("*"))]:
            if path.is_file():
                key = f"{name}: .git/{path.relative_to(repository / '.git')}"
                found[key] = (oct(path.stat().st_mode), hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def differences(before: Fingerprint, after: Fingerprint) -> list[str]:
    """Return a readable line for each thing that is not the same."""
    return [
        f"{name}: was {before.get(name, 'missing')}, is {after.get(name, 'missing')}"[:400]
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


class Proof:
    """Compares and counts; remembers whether everything was equal."""

    def __init__(self) -> None:
        self.wrong = 0

    def check(self, before: Fingerprint, after: Fingerprint) -> str:
        """Return the verdict in a word, after naming differences on stderr."""
        found = differences(before, after)
        self.wrong += len(found)
        for line in found[:20]:
            print(f"    {line}", file=sys.stderr)
        return f"{len(found)} DIFFER" if found else "exact"


def damage(world: World) -> list[tuple[dict[str, Any], Fingerprint]]:
    """Let the agent do all its steps; return each with the fingerprint from before it."""
    print(f"\n{'step':5} {'changed':>8} {'checkpoints':>12}   what the agent ran")
    done = []
    for command in STEPS:
        before = fingerprint(world)
        result, overhead = world.step(command)
        changed = len(differences(before, fingerprint(world)))
        if not changed:
            sys.exit(f"this did no damage: {command}")
        print(f"{result['id']:5} {result['changed']:>8} {overhead:>9.0f} ms   {command}", flush=True)
        done.append((result, before))
    return done


def take_back(world: World, done: list[tuple[dict[str, Any], Fingerprint]], proof: Proof) -> None:
    """Undo step by step, newest first, and compare after each."""
    print(f"\n{'undo':5} {'paths':>8} {'time':>12}   compared with before the step")
    for result, before in reversed(done):
        began = time.monotonic()
        undone = world.takeback("undo", "--yes")
        took = (time.monotonic() - began) * 1000
        if undone["targets"] != [result["id"]]:
            sys.exit(f"undo took back {undone['targets']}, not {result['id']}")
        verdict = proof.check(before, fingerprint(world))
        print(f"{result['id']:5} {len(undone['restored']):>8} {took:>9.0f} ms   {verdict}", flush=True)


def lose_everything(world: World, start: Fingerprint, checkpoint: str, proof: Proof) -> None:
    """Remove the whole project behind takeback's back and get it from the private store."""
    shutil.rmtree(world.project)
    print("\n$ rm -rf project\n$ takeback --project project restore", checkpoint, "--to project")
    began = time.monotonic()
    world.takeback("restore", checkpoint, "--project", str(world.project), "--to", str(world.project), cwd=TOP)
    took = (time.monotonic() - began) * 1000
    verdict = proof.check(start, fingerprint(world))
    world.git("fsck", "--full", "--strict")
    with closing(sqlite3.connect(world.project / "var" / "data.db")) as database:
        rows = database.execute("SELECT count(*) FROM customers").fetchone()[0]
    print(f"{took:.0f} ms, {verdict}; git fsck is content; the database has its {rows} rows")
    if rows != 500:
        proof.wrong += 1


def main() -> int:
    """Run the demo; 0 when all of it came back exactly."""
    # Resolved: takeback names projects by their real path, and a temporary directory may be a link.
    top = Path(tempfile.mkdtemp(prefix="takeback-demo-")).resolve()
    began = time.monotonic()
    proof = Proof()
    try:
        world = World(top)
        make_project(world)
        first = world.takeback("checkpoint", "-m", "before the agent")
        start = fingerprint(world)
        print(f"a copy of this repository: {len(start)} paths, refs and settings to compare")
        print(f"{first['id']}: the first checkpoint, {first['files']} files, {first['ms']:.0f} ms")
        done = damage(world)
        take_back(world, done, proof)
        lose_everything(world, start, first["id"], proof)
        used = world.takeback("du", "--project", str(world.project), cwd=TOP)["total"]
        print(f"{used / 2**20:.1f} MiB of private data for {len(STEPS)} steps, and their undos")
    finally:
        shutil.rmtree(top)
    verdict = f"{proof.wrong} things DIFFER" if proof.wrong else "everything came back, to the byte"
    print(f"\n{verdict} ({time.monotonic() - began:.0f} s)")
    return 1 if proof.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
