"""Let a program believe it can give files to other users, in a user namespace that has one user only.

    unshare -Urmpf --mount-proc python3 -IS one_uid.py PROGRAM [ARGUMENT...]

Packages are unpacked with many owners, and a namespace made without help from root has one: `chown` answers EINVAL and
dpkg gives up. A seccomp filter (https://docs.kernel.org/userspace-api/seccomp_filter.html) answers 0 instead and does
nothing, as Charliecloud's `--force=seccomp` does; so every file belongs to the one user. `setgroups` is refused there
too and is answered the same way.

Does not cover: making the namespace. Run as a file of its own, so it imports nothing of takeback.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

# The kernel's names for machines (linux/audit.h) and the numbers there of
# chown, fchown, lchown, fchownat and setgroups (arm64 has no chown and lchown).
_CALLS = {
    "x86_64": (0xC000003E, (92, 93, 94, 260, 116)),
    "aarch64": (0xC00000B7, (55, 54, 159)),
}
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ANSWER_0 = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE = 0, 4  # offsets in struct seccomp_data


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def filter_for(machine: str) -> list[bytes]:
    """Return the filter's instructions; KeyError for a machine whose call numbers are not known here."""
    number, calls = _CALLS[machine]
    count = len(calls)
    return [
        _instruction(_LOAD, 0, 0, _MACHINE),
        _instruction(_JUMP_EQUAL, 0, count + 1, number),
        _instruction(_LOAD, 0, 0, _NUMBER),
        *(_instruction(_JUMP_EQUAL, count - index, 0, call) for index, call in enumerate(calls)),
        _instruction(_RETURN, 0, 0, _ALLOW),
        _instruction(_RETURN, 0, 0, _ANSWER_0),
    ]


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def main(argv: list[str]) -> None:
    """Set the filter and become the program; ends with a message where it cannot."""
    machine = platform.machine()
    if machine not in _CALLS:
        sys.exit(f"one user's namespace: not known for {machine}")
    instructions = filter_for(machine)
    block = ctypes.create_string_buffer(b"".join(instructions))
    program = _Program(len(instructions), ctypes.addressof(block))
    libc = ctypes.CDLL(None, use_errno=True)
    # Needs no PR_SET_NO_NEW_PRIVS (which would end setuid programs): we have CAP_SYS_ADMIN in our own namespace.
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
