"""A small program that plays a script without any model: the prompt on stdin, plain text out.

    plain_agent.py FOLDER_OF_SCRIPTS

Its entries are those of the scripted model; of tools it has Bash alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    name = re.findall(r"\[\[script:([\w.-]+)\]\]", sys.stdin.read())[-1]
    for entry in json.loads((Path(sys.argv[1]) / f"{name}.json").read_text("utf-8")):
        time.sleep(entry.get("sleep", 0))
        if "status" in entry:
            print(f"error: HTTP status {entry['status']}: {entry['error']}: {entry['message']}", file=sys.stderr)
            return 1
        if "tool" in entry:
            subprocess.run(["bash", "-c", entry["input"]["command"]], stdin=subprocess.DEVNULL, check=True)
        else:
            print(entry.get("text", ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
