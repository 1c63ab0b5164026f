"""Run a command cut off from whoever runs the tests, on the terminal that is stdin: as a person in a terminal would.

    python detached.py RESULT CMD...      the exit code is written to the file RESULT

A developer may run the tests under an agent, so nothing of the tests may be among the command's ancestors.
"""

from __future__ import annotations

import fcntl
import os
import sys
import termios


def main() -> None:
    result, *command = sys.argv[1:]
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    child = os.fork()
    if child == 0:
        os.execvp(command[0], command)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(f"{result}.part", "w") as file:
        file.write(str(code))
    os.rename(f"{result}.part", result)
    os._exit(0)


main()
