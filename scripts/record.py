"""Record a terminal session as an SVG: real commands in a temporary project, on a pseudo-terminal, drawn by rich.

Started by `scripts/record [FILE]`. Only the prompt is drawn by us; every other character came from a command.
"""

from __future__ import annotations

import errno
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

TOP = Path(__file__).resolve().parents[1]
COLUMNS, LINES = 92, 60

PREPARE = """
git init -q -b main && mkdir src && printf 'print("hello")\\n' >src/app.py && printf '# Shop\\n' >README.md
printf '.env\\n' >.gitignore && git add -A && git commit -q -m first && git branch experiment
printf 'TOKEN=hunter2\\n' >.env && chmod 600 .env
"""
SESSION = [
    "ls -A",
    "takeback run 'rm -rf src .env; git branch -D experiment'",
    "ls -A",
    "takeback undo",
    "ls -A; cat .env; git branch",
    "takeback log",
]


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
    return seen.decode().replace("\r\n", "\n")


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


def main() -> int:
    """Record, and write the picture to the file named or to its place in docs."""
    target = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else TOP / "docs" / "pictures" / "undo.svg"
    top = Path(tempfile.mkdtemp(prefix="takeback-record-")).resolve()
    try:
        project, programs = top / "shop", top / "bin"
        project.mkdir()
        programs.mkdir()
        name = programs / "takeback"
        name.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m takeback "$@"\n')
        name.chmod(0o755)
        (top / ".gitconfig").write_text("[user]\n\tname = Me\n\temail = me@localhost\n")
        env = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(top),
            "TAKEBACK_HOME": str(top / "data"),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "LINES": str(LINES),
            "GIT_PAGER": "cat",
        }
        subprocess.run(["sh", "-ec", PREPARE], cwd=project, env=env, check=True)
        shown = [(command, run(command, project, env).rstrip("\n")) for command in SESSION]
    finally:
        shutil.rmtree(top)
    picture = draw(shown)
    if str(top) in picture:
        sys.exit("the picture holds a path of this machine")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(picture, encoding="utf-8")
    print(os.path.relpath(target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
