"""Record terminal sessions as SVGs: real commands in a temporary project, on a pseudo-terminal, drawn by rich.

Started by `scripts/record [NAME]...`, for the pictures named or for all of them. Only the prompt is drawn by us; every
other character came from a command.
"""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

TOP = Path(__file__).resolve().parents[1]
COLUMNS, LINES = 92, 60


class Recording(NamedTuple):
    """What is run unseen before, the commands that are shown, and what is run unseen after."""

    before: str
    shown: list[str]
    after: str = ""


UNDO = Recording(
    before="""
git init -q -b main && mkdir src && printf 'print("hello")\\n' >src/app.py && printf '# Shop\\n' >README.md
printf '.env\\n' >.gitignore && git add -A && git commit -q -m first && git branch experiment
printf 'TOKEN=hunter2\\n' >.env && chmod 600 .env
""",
    shown=[
        "ls -A",
        "takeback run 'rm -rf src .env; git branch -D experiment'",
        "ls -A",
        "takeback undo",
        "ls -A; cat .env; git branch",
        "takeback log",
    ],
)
COPY = Recording(
    before="""
takeback sandbox create --name shop
cat >check <<'end'
test "$(sqlite3 shop.db 'SELECT count(*), sum(total) FROM orders')" = '3|60'
end
takeback sandbox cp check shop:/workspace/check
takeback sandbox exec shop "sqlite3 shop.db 'CREATE TABLE orders (total); INSERT INTO orders VALUES (10), (20), (30)'"
""",
    shown=[
        "takeback sandbox exec shop cat check",
        "takeback sandbox try --verify 'sh check' shop \"sqlite3 shop.db 'DELETE FROM orders'\"",
        "takeback sandbox try --verify 'sh check' shop \"sqlite3 shop.db 'ALTER TABLE orders ADD id'\"",
        "takeback sandbox exec shop \"sqlite3 -header shop.db 'SELECT * FROM orders'\"",
    ],
    after="""
saved=$(takeback sandbox snapshots list shop | cut -f1)
takeback sandbox rm --yes shop
takeback sandbox snapshots rm --yes $saved
""",
)
AGENT = Recording(
    before="""
git init -q -b main && mkdir src && printf 'print("hello")\\n' >src/app.py && printf '# Shop\\n' >README.md
printf '.env\\n.claude\\n' >.gitignore && git add -A && git commit -q -m first && printf 'TOKEN=hunter2\\n' >.env
""",
    shown=[
        "takeback init --agent claude",
        "claude -p 'Tidy up a little.'",
        "ls -A; cat .env README.md",
        "takeback log",
        "takeback undo",
        "ls -A; cat .env README.md",
    ],
)
RECORDINGS = {"undo": UNDO, "copy": COPY, "agent": AGENT}

# What the model says in `agent`: the program is the real one, only its model is played.
REPLIES = [
    {"tool": "Bash", "input": {"command": "rm -rf src .env && sed -i 's/Shop/Chop/' README.md", "description": "tidy"}},
    {"text": "I removed what was not needed and polished the README."},
]
MODEL = TOP.parent / "shared" / "tools" / "scripted_model.py"


@contextmanager
def agent(top: Path, programs: Path) -> Iterator[None]:
    """Put a `claude` on the path: the program of tests/agents with a scripted model on loopback."""
    replies = top / "replies"
    replies.mkdir()
    (replies / "default.json").write_text(json.dumps(REPLIES), encoding="utf-8")
    argv = [sys.executable, str(MODEL), "--port", "0", "--scripts", str(replies)]
    model = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        assert model.stdout is not None
        url = f"http://127.0.0.1:{int(model.stdout.readline())}"
        settings = {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "NO_PROXY": "127.0.0.1", "IS_SANDBOX": "1",
            "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        real = TOP / ".cache" / "agents" / "ordinary" / "node_modules" / ".bin" / "claude"
        name = programs / "claude"
        name.write_text(f'#!/bin/sh\nexec env {words} "{real}" --permission-mode bypassPermissions "$@" </dev/null\n')
        name.chmod(0o755)
        yield
    finally:
        model.terminate()
        model.communicate()


def run(command: str, cwd: Path, env: dict[str, str]) -> str:
    """Run shell source on a terminal and return what it showed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(["sh", "-c", command], cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError as error:  # Linux says so when the other side is closed
            if error.errno != errno.EIO:
                raise
            break
        if not chunk:
            break
        seen += chunk
    os.close(master)
    process.wait()
    # An agent sets the window's title and the character set, which no picture has (xterm's control sequences).
    text = re.sub(r"\x1b\].*?(?:\x07|\x1b\\)|[\x0e\x0f]", "", seen.decode().replace("\r\n", "\n"), flags=re.DOTALL)
    return text.rstrip()


def draw(shown: list[tuple[str, str]]) -> str:
    """Return the session as SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for command, output in shown:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        if output:
            console.print(Text.from_ansi(output))
    # A picture must not fetch anything: the viewer's own monospace font will do.
    own = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="takeback", code_format=own, unique_id="takeback")


def record(recording: Recording, top: Path) -> str:
    """Return the picture of a session in a new project below `top`."""
    stack = ExitStack()
    project, programs = top / "shop", top / "bin"
    project.mkdir()
    programs.mkdir()
    name = programs / "takeback"
    name.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m takeback "$@"\n')
    name.chmod(0o755)
    (top / ".gitconfig").write_text("[user]\n\tname = Me\n\temail = me@localhost\n")
    data = top / "data"
    if recording is COPY:  # where the engine and the image are already
        data = TOP / ".cache" / "machines" / str(os.geteuid())
    env = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(top),
        "TAKEBACK_HOME": str(data),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": str(LINES),
        "GIT_PAGER": "cat",
    }
    try:
        if recording is AGENT:
            stack.enter_context(agent(top, programs))
        subprocess.run(["sh", "-ec", recording.before], cwd=project, env=env, check=True, stdout=subprocess.DEVNULL)
        return draw([(command, run(command, project, env)) for command in recording.shown])
    finally:
        stack.close()
        subprocess.run(["sh", "-c", recording.after], cwd=project, env=env, check=False, stdout=subprocess.DEVNULL)


def main() -> int:
    """Record, and write each picture to its place in docs."""
    for name in sys.argv[1:] or RECORDINGS:
        top = Path(tempfile.mkdtemp(prefix="takeback-record-")).resolve()
        try:
            picture = record(RECORDINGS[name], top)
        finally:
            shutil.rmtree(top)
        if str(top) in picture or str(TOP) in picture:
            sys.exit("the picture holds a path of this machine")
        target = TOP / "docs" / "pictures" / f"{name}.svg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(picture, encoding="utf-8")
        print(target.relative_to(TOP))
    return 0


if __name__ == "__main__":
    sys.exit(main())
