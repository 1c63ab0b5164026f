"""Be PID 1 of a pid namespace, and stay as long as anything else is in it.

    unshare -Urmpf --mount-proc python3 -IS pid_one.py PROGRAM [ARGUMENT...]

When PID 1 ends, the kernel ends all the rest. So the one who may be killed is its child, and what that one leaves runs
on; somebody else may enter (nsenter(1)) and look after it. Run by its path: imports nothing of takeback.

Does not cover: finding such a namespace again (`spaces`).
"""

from __future__ import annotations

import os
import sys
import time

_LOOK = 0.2
_FDS = 1024


def main(argv: list[str]) -> int:
    os.posix_spawnp(argv[0], argv, os.environ)
    os.closerange(3, _FDS)  # else whoever waits for the end of a pipe would wait for us
    while True:
        try:
            os.wait()  # its own child, and every orphan: the kernel gives them to PID 1
        except ChildProcessError:
            # Who entered is a child of somebody outside.
            if all(name == "1" or not name.isdigit() for name in os.listdir("/proc")):
                return 0
            time.sleep(_LOOK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
