"""Inline Python, read as a syntax tree: calls with literal arguments that delete, write, run or send.

Does not cover: values that are computed; they make the code opaque.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from takeback.guard.command import Step
from takeback.guard.http import request
from takeback.guard.model import Deed
from takeback.guard.words import UNKNOWN

_ONLY_AST = 0x400
_SAFE_MODULES = frozenset(
    "sys json re math datetime time collections itertools functools platform pprint textwrap string base64 hashlib "
    "os pathlib typing tomllib random statistics decimal fractions operator enum dataclasses uuid secrets unicodedata "
    "struct binascii locale calendar csv io shutil subprocess urllib urllib.request urllib.parse requests httpx ast "
    "keyword inspect sysconfig importlib importlib.metadata importlib.util glob fnmatch zlib copy html difflib "
    "configparser xml.etree.ElementTree os.path yaml contextlib abc heapq bisect array numbers shlex getpass socket "
    "site __future__".split()
)
_SENDING_MODULES = frozenset(
    "smtplib ftplib telnetlib paramiko boto3 botocore stripe twilio fabric websocket websockets pika kafka slack_sdk "
    "sendgrid imaplib poplib nntplib xmlrpc asyncssh".split()
)
_SAFE_CALLS = frozenset(
    "print len range str int float bool list dict set tuple sorted sum min max abs repr type isinstance enumerate zip "
    "map filter any all round hash id chr ord hex bin oct dir vars bytes format reversed iter next divmod pow "
    "frozenset hasattr issubclass callable open".split()
)
_BAD_NAMES = frozenset(
    "eval exec compile __import__ globals locals setattr delattr getattr input breakpoint memoryview "
    "__builtins__".split()
)
# Methods and functions that do something, whatever they are called on.
_BAD_METHODS = frozenset(
    "system popen remove unlink rmtree rmdir removedirs rename renames write write_text write_bytes writelines mkdir "
    "makedirs touch symlink symlink_to link hardlink_to chmod chown lchmod run call check_call check_output Popen "
    "urlopen urlretrieve post put patch delete request send sendall connect copyfile copytree copy2 copyfileobj move "
    "make_archive unpack_archive kill killpg fork execv execve execvp execl execlp spawnv spawnl spawnvp putenv setuid "
    "setgid chdir chroot truncate import_module exec_module load_module save to_csv to_json extractall bind listen "
    "create_connection getoutput getstatusoutput startfile mknod mkfifo utime abort _exit exec eval __import__ fdopen "
    "sendto Session Client stream head options build_opener socket".split()
)
_DELETES = frozenset(("os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree"))
_MAKES = frozenset(("os.mkdir", "os.makedirs"))
_MOVES = frozenset(("os.rename", "os.replace", "os.renames", "shutil.move"))
_COPIES = frozenset(("shutil.copy", "shutil.copyfile", "shutil.copytree", "shutil.copy2"))
_RUNS = frozenset(
    [
        *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
        *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")),
    ]
)
_ASKS = ("requests", "httpx")
_CONNECTS = frozenset(("connect", "connect_ex", "sendto", "create_connection", "open_connection"))


def python(step: Step, text: str) -> bool:
    """Note what Python code plainly does; False when there is more to it."""
    try:
        tree: Any = compile(text, "<inline>", "exec", _ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return _Code(step, list(_nodes(tree))).read()


def _nodes(tree: Any) -> Iterator[Any]:
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                pending.extend(one for one in reversed(value) if hasattr(one, "_fields"))
            elif hasattr(value, "_fields"):
                pending.append(value)


def _literal(node: Any) -> str | None:
    if type(node).__name__ == "Constant" and isinstance(node.value, str):
        return node.value
    if type(node).__name__ == "Call" and len(node.args) == 1 and type(node.func).__name__ in ("Name", "Attribute"):
        name = node.func.id if type(node.func).__name__ == "Name" else node.func.attr
        return _literal(node.args[0]) if name == "Path" else None
    return None


class _Code:
    """One piece of code: what its names stand for, and what its calls do."""

    def __init__(self, step: Step, nodes: list[Any]) -> None:
        self._step = step
        self._nodes = nodes
        self._names: dict[str, str] = {}
        self._called: set[int] = set()

    def read(self) -> bool:
        """Note every call; False when something is not plain."""
        clear = True
        for node in self._nodes:
            kind = type(node).__name__
            if kind in ("Import", "ImportFrom"):
                clear = self._import(node, kind == "ImportFrom") and clear
            elif kind == "Call":
                self._called.add(id(node.func))
        for node in self._nodes:
            kind = type(node).__name__
            if kind == "Call":
                clear = self._call(node) and clear
            elif kind in ("Name", "Attribute"):
                clear = self._named(node, node.id if kind == "Name" else node.attr) and clear
        return clear

    def _import(self, node: Any, of_module: bool) -> bool:
        module = (node.module or ".") if of_module else ""
        clear = True
        for alias in node.names:
            whole = f"{module}.{alias.name}" if of_module else alias.name
            name = alias.asname or (alias.name if of_module else alias.name.partition(".")[0])
            self._names[name] = whole if of_module or alias.asname else name
            source = module or alias.name
            clear = clear and source in _SAFE_MODULES and name not in _SAFE_CALLS
            if source.partition(".")[0] in _SENDING_MODULES:
                self._step.deed(Deed.OUTSIDE, f"{self._step.name} runs code that may send")
        return clear

    def _named(self, node: Any, name: str) -> bool:
        if name in _BAD_NAMES:
            return False
        if name.startswith("__") and name not in ("__version__", "__file__", "__name__", "__doc__"):
            return False
        # A function that is handed on is called somewhere else.
        whole = self._names.get(name, name).rpartition(".")[2]
        return id(node) in self._called or whole not in _BAD_METHODS

    def _dotted(self, node: Any) -> str:
        parts: list[str] = []
        while type(node).__name__ == "Attribute":
            parts.append(node.attr)
            node = node.value
        if type(node).__name__ == "Name":
            parts.append(self._names.get(node.id, node.id))
        elif type(node).__name__ == "Call":
            parts.append("()")
        elif parts:
            parts.append("?")
        return ".".join(reversed(parts))

    def _call(self, node: Any) -> bool:
        """Note one call; False when what it does is not plain."""
        name, step = self._dotted(node.func), self._step
        last = name.rpartition(".")[2]
        given = [_literal(one) for one in node.args]
        first = given[0] if given else None
        second = given[1] if len(given) > 1 else None
        if name in _DELETES:
            step.touch(first or UNKNOWN, delete=True, deep=True)
        elif name in _MAKES:
            step.touch(first or UNKNOWN, new=True)
        elif name in _MOVES or name in _COPIES:
            step.touch(second or UNKNOWN)
            if name in _MOVES:
                step.touch(first or UNKNOWN, delete=True, deep=True)
        elif name in ("open", "io.open"):
            self._open(node, first, given[1:])
        elif name in _RUNS:
            return self._run(node, first)
        elif name == "urllib.request.urlopen" or name.partition(".")[0] in _ASKS:
            return self._ask(node, name, last, first, second)
        elif last in ("unlink", "rmdir", "touch", "write_text", "write_bytes", "mkdir") and len(name) > len(last):
            owner = _literal(node.func.value)
            step.touch(owner or UNKNOWN, delete=last in ("unlink", "rmdir"))
        elif last in ("write", "writelines"):
            return name.startswith(("sys.stdout.", "sys.stderr.")) or self._of_open(node.func.value)
        elif last in _CONNECTS:
            if not name.startswith("sqlite3."):
                step.deed(Deed.OUTSIDE, f"{step.name} runs code that connects")
            return False
        else:
            known = name in _SAFE_CALLS or name.partition(".")[0] in _SAFE_MODULES or name.startswith(("().", "?."))
            return last not in _BAD_METHODS and last not in _BAD_NAMES and (known or "." in name)
        return True

    def _of_open(self, node: Any) -> bool:
        """Whether something is what `open` gave, which was noted when it was opened."""
        if type(node).__name__ == "Call":
            return self._dotted(node.func) in ("open", "io.open")
        if type(node).__name__ != "Name":
            return False
        for one in self._nodes:
            kind = type(one).__name__
            if kind == "withitem" and type(one.optional_vars).__name__ == "Name" and one.optional_vars.id == node.id:
                return self._of_open(one.context_expr)
            if kind == "Assign" and any(getattr(target, "id", None) == node.id for target in one.targets):
                return type(one.value).__name__ == "Call" and self._of_open(one.value)
        return False

    def _open(self, node: Any, path: str | None, more: list[str | None]) -> None:
        mode = (more[0] or "w") if more else "r"
        for word in node.keywords:
            if word.arg == "mode":
                mode = _literal(word.value) or "w"
        if any(letter in mode for letter in "wax+"):
            self._step.touch(path or UNKNOWN)

    def _run(self, node: Any, first: str | None) -> bool:
        if first is not None:
            self._step.shell(first)
            return True
        if node.args and type(node.args[0]).__name__ in ("List", "Tuple"):
            self._step.run([_literal(one) or UNKNOWN for one in node.args[0].elts])
            return True
        return False

    def _ask(self, node: Any, name: str, last: str, first: str | None, second: str | None) -> bool:
        if last == "urlopen":
            sends = len(node.args) > 1 or first is None or any(word.arg == "data" for word in node.keywords)
            request(self._step, "POST" if sends else "GET", first or UNKNOWN)
        elif last == "request":
            request(self._step, first or "?", second or UNKNOWN)
        elif last in ("get", "head", "options", "post", "put", "patch", "delete"):
            request(self._step, last, first or UNKNOWN)
        else:
            return False
        return True
