"""Inline Python, read as a syntax tree: calls with literal arguments that delete, write, run or send.

Does not cover: values that are computed; they make the code opaque.
"""

from __future__ import annotations

from typing import Any

from takeback.guard.command import Step
from takeback.guard.http import request
from takeback.guard.model import Deed
from takeback.guard.words import UNKNOWN

_ONLY_AST = 0x400
_SAFE_MODULES = frozenset(
    "sys json re math datetime time collections itertools functools platform pprint textwrap string base64 "
    "hashlib os pathlib typing tomllib random "
    "statistics decimal fractions operator enum dataclasses uuid secrets unicodedata struct binascii locale "
    "calendar csv io shutil subprocess urllib "
    "urllib.request urllib.parse requests httpx ast keyword inspect sysconfig importlib importlib.metadata "
    "importlib.util glob fnmatch zlib copy "
    "html difflib configparser xml.etree.ElementTree os.path yaml contextlib abc heapq bisect array numbers "
    "shlex getpass socket site".split()
)
_SENDING_MODULES = frozenset(
    "smtplib ftplib telnetlib paramiko boto3 botocore stripe twilio fabric websocket websockets pika kafka slack_sdk "
    "sendgrid imaplib poplib nntplib xmlrpc asyncssh".split()
)
_SAFE_CALLS = frozenset(
    "print len range str int float bool list dict set tuple sorted sum min max abs repr type isinstance "
    "enumerate zip map filter any all round hash id "
    "chr ord hex bin oct dir vars bytes format reversed iter next divmod pow frozenset hasattr issubclass "
    "callable help "
    "Path PurePath Counter defaultdict namedtuple OrderedDict Decimal Fraction datetime date timedelta".split()
)
_BAD_NAMES = frozenset(
    "eval exec compile __import__ globals locals setattr delattr getattr input breakpoint memoryview".split()
)
_BAD_METHODS = frozenset(
    "system popen remove unlink rmtree rmdir removedirs rename renames replace_ write write_text write_bytes "
    "writelines mkdir makedirs touch symlink "
    "symlink_to link hardlink_to link_to chmod chown lchmod run call check_call check_output Popen urlopen "
    "urlretrieve post put patch delete request send "
    "sendall connect copy copyfile copytree copy2 move make_archive unpack_archive kill killpg fork execv execve "
    "execvp execl execlp spawnv spawnl spawnvp "
    "putenv setuid setgid chdir chroot truncate import_module exec_module load_module dump save to_csv to_json "
    "extractall create_connection bind listen "
    "getoutput getstatusoutput startfile mknod mkfifo utime abort _exit exec eval __import__ open fdopen sendto "
    "loads_ Session Client stream rename_ "
    "get head options".split()
) - {"get", "loads_", "replace_", "rename_", "copy"}


def python(step: Step, text: str) -> bool:
    """Note what Python code plainly does; False when there is more to it."""
    try:
        tree: Any = compile(text, "<inline>", "exec", _ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    clear = True
    pending: list[Any] = [tree]
    while pending:
        node = pending.pop()
        kind = type(node).__name__
        if kind in ("Import", "ImportFrom"):
            names = [alias.name for alias in node.names] if kind == "Import" else [node.module or "."]
            clear = clear and all(name in _SAFE_MODULES for name in names)
            if any(name.partition(".")[0] in _SENDING_MODULES for name in names):
                step.deed(Deed.OUTSIDE, f"{step.name} runs code that may send")
        elif kind == "Call":
            clear = _call(step, node) and clear
        elif kind in ("Name", "Attribute"):
            name = node.id if kind == "Name" else node.attr
            clear = (
                clear
                and name not in _BAD_NAMES
                and not (name.startswith("__") and name not in ("__version__", "__file__", "__name__", "__doc__"))
            )
        for field in getattr(node, "_fields", ()):
            value = getattr(node, field)
            if isinstance(value, list):
                pending.extend(one for one in value if hasattr(one, "_fields"))
            elif hasattr(value, "_fields"):
                pending.append(value)
    return clear


def _dotted(node: Any) -> str:
    parts: list[str] = []
    while type(node).__name__ == "Attribute":
        parts.append(node.attr)
        node = node.value
    if type(node).__name__ == "Name":
        parts.append(node.id)
    elif type(node).__name__ == "Call":
        parts.append("()")
    return ".".join(reversed(parts))


def _literal(node: Any) -> str | None:
    if type(node).__name__ == "Constant" and isinstance(node.value, str):
        return node.value
    if type(node).__name__ == "Call" and _dotted(node.func).endswith("Path") and len(node.args) == 1:
        return _literal(node.args[0])
    return None


def _call(step: Step, node: Any) -> bool:
    """Note one call; False when what it does is not plain."""
    name = _dotted(node.func)
    last = name.rpartition(".")[2]
    first = _literal(node.args[0]) if node.args else None
    if last in ("remove", "unlink", "rmtree", "rmdir", "removedirs") and (
        name.startswith(("os.", "shutil.")) or name == last
    ):
        step.touch(first if first is not None else UNKNOWN, delete=True, deep=True)
        return True
    if (
        last in ("unlink", "rmdir", "touch", "write_text", "write_bytes", "mkdir")
        and type(node.func).__name__ == "Attribute"
    ):
        owner = _literal(node.func.value)
        if owner is None and name.startswith("os."):
            owner = first
        step.touch(owner if owner is not None else UNKNOWN, delete=last in ("unlink", "rmdir"))
        return True
    if name == "open":
        return _open(step, node, first)
    if last in ("makedirs", "mkdir") and first is not None:
        step.touch(first)
        return True
    if (
        name
        in (
            "os.rename",
            "os.replace",
            "shutil.move",
            "shutil.copy",
            "shutil.copyfile",
            "shutil.copytree",
            "shutil.copy2",
        )
        and len(node.args) > 1
    ):
        second = _literal(node.args[1])
        step.touch(second if second is not None else UNKNOWN)
        if "copy" not in last:
            step.touch(first if first is not None else UNKNOWN, delete=True, deep=True)
        return True
    if last in (
        "system",
        "popen",
        "run",
        "call",
        "check_call",
        "check_output",
        "Popen",
        "getoutput",
        "getstatusoutput",
    ):
        return _process(step, node, first)
    if last in ("urlopen", "get", "head", "post", "put", "patch", "delete", "request") and name.startswith(
        ("requests.", "httpx.", "urllib.", "urlopen")
    ):
        method = first or "?" if last == "request" else "GET" if last == "urlopen" else last.upper()
        if last == "urlopen" and (
            len(node.args) > 1 or any(word.arg == "data" for word in node.keywords) or first is None
        ):
            method = "POST"
        url = _literal(node.args[1]) if last == "request" and len(node.args) > 1 else first
        request(step, method, url or UNKNOWN)
        return True
    if last == "write" and type(getattr(node.func, "value", None)).__name__ == "Call" and name.startswith("()"):
        return _dotted(node.func.value.func).rpartition(".")[2] == "open"
    if last in ("connect", "sendto", "create_connection", "open_connection"):
        if "sqlite3" not in name:
            step.deed(Deed.OUTSIDE, f"{step.name} runs code that connects")
        return False
    return last in _SAFE_CALLS or (last not in _BAD_METHODS and last not in _BAD_NAMES and "." in name)


def _open(step: Step, node: Any, path: str | None) -> bool:
    mode = _literal(node.args[1]) if len(node.args) > 1 else None
    for word in node.keywords:
        if word.arg == "mode":
            mode = _literal(word.value) or "w"
    if len(node.args) > 1 and mode is None:
        mode = "w"
    if mode is not None and any(letter in mode for letter in "wax+"):
        step.touch(path if path is not None else UNKNOWN)
    return True


def _process(step: Step, node: Any, first: str | None) -> bool:
    if first is not None:
        step.shell(first)
        return True
    if node.args and type(node.args[0]).__name__ in ("List", "Tuple"):
        words = [_literal(one) for one in node.args[0].elts]
        step.run([word if word is not None else UNKNOWN for word in words])
        return True
    return False
