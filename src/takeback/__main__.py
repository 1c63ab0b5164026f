"""Start the command line; `--version` is answered before anything is imported.

Does not cover: commands, options, exit codes (see `takeback.cli`).
"""

from __future__ import annotations

import sys

from takeback._version import VERSION


def main() -> int:
    """Run `takeback` on this process's arguments and return the exit code."""
    argv = sys.argv[1:]
    if argv == ["--version"]:
        print(f"takeback {VERSION}")
        return 0
    # Completion scripts are made for the name that was typed, so the alias must keep its own.
    name = sys.argv[0].rpartition("/")[2]
    try:
        from takeback.cli.main import run

        return run(argv, name=name if name in ("takeback", "tb") else "takeback")
    except KeyboardInterrupt:
        # Ctrl-C while the imports still run, or while an error is being said.
        return 130


if __name__ == "__main__":
    sys.exit(main())
