"""Inline code of other languages, looked into as far as is cheap: literal calls that delete, write, run or send.

Does not cover: understanding programs. Whatever is not plainly harmless is opaque, and so of class `machine`.
"""

from __future__ import annotations

import re
from typing import Any

from takeback.guard.command import Step
from takeback.guard.http import request
from takeback.guard.model import Deed
from takeback.guard.words import UNKNOWN

_LONGEST = 20_000


def inline(step: Step, language: str, *selectors: str) -> None:
    """Code in an option's value, an operand, or what the interpreter reads."""
    texts = step.select(*selectors)
    if not selectors:
        if step.stdin is None:
            step.deed(Deed.OPAQUE, f"{step.name} is opened, and what is typed into it is not seen")
            return
        if step.stdin.text is None:
            if step.stdin.made_by[:1] == ("cat",):
                step.deed(Deed.OPAQUE)
            else:
                step.deed(Deed.OUTSIDE, f"{step.name} runs what another command writes")
            return
        texts = [step.stdin.text]
    for text in texts:
        if text.startswith(UNKNOWN):
            step.deed(Deed.OUTSIDE, f"{step.name} runs code that cannot be seen")
        elif len(text) > _LONGEST or not (
            _python(step, text) if language == "python" else _other(step, text, language)
        ):
            step.deed(Deed.OPAQUE, f"{step.name} runs code that is not plainly harmless")


def module(step: Step) -> None:
    """`python -m NAME`: a program of that name."""
    name = (step.parsed.values("-m") or [""])[0]
    short = name.partition(".")[0] if name.partition(".")[0] in ("twine", "pytest", "pip", "mypy", "IPython") else name
    if short in ("pip", "pip3", "pytest", "venv", "virtualenv", "twine", "black", "ruff", "mypy", "isort", "flake8", "pylint", "poetry", "tox", "nox",
                 "coverage", "build", "http.server", "json.tool", "unittest", "compileall", "py_compile", "this", "pydoc", "site", "sysconfig",
                 "platform", "tokenize", "ast", "dis", "calendar", "timeit", "pyflakes", "uv", "pre_commit", "zipfile", "tarfile", "pipx", "jupyter",
                 "uvicorn", "gunicorn", "flask", "celery", "alembic", "streamlit", "playwright", "pdm", "hatch", "pip_audit", "pipdeptree", "bandit",
                 "webbrowser", "ensurepip", "http", "ansible", "conda", "mkdocs", "sphinx", "pyright", "autopep8", "yapf", "base64", "gzip", "uuid",
                 "inspect", "locale", "cProfile", "pdb", "trace", "django"):  # fmt: skip
        name = f"python-m-{short}"
        step.run([name if name in step.walk.library else short, *step.operands])
    else:
        step.deed(Deed.OPAQUE, f"{step.name} -m {name} runs code that cannot be seen".replace(UNKNOWN, "?"))


# -- Python ---------------------------------------------------------------------------------------------------------

_ONLY_AST = 0x400
_SAFE_MODULES = frozenset(
    "sys json re math datetime time collections itertools functools platform pprint textwrap string base64 hashlib os pathlib typing tomllib random "
    "statistics decimal fractions operator enum dataclasses uuid secrets unicodedata struct binascii locale calendar csv io shutil subprocess urllib "
    "urllib.request urllib.parse requests httpx ast keyword inspect sysconfig importlib importlib.metadata importlib.util glob fnmatch zlib copy "
    "html difflib configparser xml.etree.ElementTree os.path yaml contextlib abc heapq bisect array numbers shlex getpass socket site".split()
)
_SAFE_CALLS = frozenset(
    "print len range str int float bool list dict set tuple sorted sum min max abs repr type isinstance enumerate zip map filter any all round hash id "
    "chr ord hex bin oct dir vars bytes format reversed iter next divmod pow frozenset hasattr issubclass callable help "
    "Path PurePath Counter defaultdict namedtuple OrderedDict Decimal Fraction datetime date timedelta".split()
)
_BAD_NAMES = frozenset(
    "eval exec compile __import__ globals locals setattr delattr getattr input breakpoint memoryview".split()
)
_BAD_METHODS = frozenset(
    "system popen remove unlink rmtree rmdir removedirs rename renames replace_ write write_text write_bytes writelines mkdir makedirs touch symlink "
    "symlink_to link hardlink_to link_to chmod chown lchmod run call check_call check_output Popen urlopen urlretrieve post put patch delete request send "
    "sendall connect copy copyfile copytree copy2 move make_archive unpack_archive kill killpg fork execv execve execvp execl execlp spawnv spawnl spawnvp "
    "putenv setuid setgid chdir chroot truncate import_module exec_module load_module dump save to_csv to_json extractall create_connection bind listen "
    "getoutput getstatusoutput startfile mknod mkfifo utime abort _exit exec eval __import__ open fdopen sendto loads_ Session Client stream rename_ "
    "get head options".split()
) - {"get", "loads_", "replace_", "rename_", "copy"}


def _python(step: Step, text: str) -> bool:
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


# -- other languages --------------------------------------------------------------------------------------------------

_RUNS = re.compile(
    r"\b(?:execSync|execFileSync|exec|spawnSync|spawn|execFile|system|popen|shell_exec|passthru|proc_open|capture2e?|capture3|syscall)\s*[(\s]\s*"
    r"(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`([^`]*)`)(\s*,)?"
)
_BACKTICK = re.compile(r"`([^`]*)`|\bqx[{(/|]([^})/|]*)|%x[{(\[]([^})\]]*)")
_DELETES = re.compile(r"\b(?:rmSync|rm|unlinkSync|unlink|rmdirSync|rmdir|rm_rf|rm_r|rm_f|remove|removeSync|delete|remove_dir|rmtree|remove_tree|rimraf"
                      r"|emptyDirSync|remove_entry|remove_entry_secure)\s*[(\s]\s*(['\"])(.*?)\1")  # fmt: skip
_WRITES = re.compile(r"\b(?:writeFileSync|writeFile|appendFileSync|appendFile|createWriteStream|file_put_contents|write|mkdirSync|mkdir|mkdir_p|touch|outputFile\w*"
                     r"|mkdirp|truncateSync|binwrite)\s*[(\s]\s*(['\"])(.*?)\1")  # fmt: skip
_OPENS = re.compile(
    r"\b(?:open|fopen|File\.open|File\.new)\s*[(\s]\s*(?:[$\w]+\s*,\s*)?(['\"])(.*?)\1\s*,\s*(['\"])([^'\"]*)\3(?:\s*,\s*(['\"])(.*?)\5)?"
)
_SENDS = re.compile(r"method['\"]?\s*(?::|=>)\s*['\"](POST|PUT|PATCH|DELETE)['\"]|\.(post|put|patch|delete)\s*\(\s*['\"]|Net::HTTP\.post|::Post\.new|CURLOPT_POST"
                    r"|\bsendBeacon\b|nodemailer|sendMail|Net::SMTP|\bmail\s*\(", re.IGNORECASE)  # fmt: skip
_URL = re.compile(r"https?://[^\s'\"`)]+")
_ASKS = re.compile(
    r"\b(fetch|axios|http\.get|https\.get|Net::HTTP\.get|URI\.open|file_get_contents|LWP::Simple|open-uri|got)\b"
)
_NEVER_PLAIN = re.compile(
    r"\b(eval|Function|import\(|child_process|spawn|exec|fork|system|net|dgram|tls|cluster|worker_threads|vm|process\.(kill|chdir|exit\w+|dlopen|binding)|unlink|rm\w*"
    r"|rename\w*|chmod\w*|chown\w*|write\w*File\w*|appendFile\w*|symlink\w*|copyFile\w*|truncate\w*|Socket|TCPSocket|UDPSocket|FileUtils|kill|syscall|send|load|instance_eval"
    r"|class_eval|Kernel|IO\.(write|popen|binwrite)|File\.(write|delete|open|rename|unlink|chmod|symlink|new)|Dir\.(mkdir|rmdir|delete|unlink|chdir)|fopen|fwrite"
    r"|file_put_contents|passthru|shell_exec|proc_open|popen|include|unserialize|mail|move_uploaded_file|rmdir|mkdir|Bun\.(write|\$|spawn)|Deno\.(write\w*|remove|run"
    r"|Command|mkdir|rename))\b"
)
_REQUIRE = re.compile(
    r"\brequire\s*\(?\s*['\"]([^'\"]+)['\"]|\bfrom\s+['\"]([^'\"]+)['\"]|\bimport\s+['\"]([^'\"]+)['\"]|\buse\s+([A-Z][\w:]*)"
)
_SAFE_REQUIRE = frozenset(
    "fs path os util url crypto assert events querystring buffer zlib string_decoder timers json date set time yaml digest securerandom pp erb ostruct bigdecimal "
    "prime csv strict warnings Data::Dumper List::Util POSIX Time::HiRes JSON JSON::PP MIME::Base64 Digest::MD5 Digest::SHA http https net/http uri open-uri fileutils "
    "child_process open3 node:fs node:path node:os node:util node:crypto node:child_process node:process process File::Path utf8 LWP::Simple Encode Getopt::Long".split()
)
_STRINGS = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`")


def _other(step: Step, text: str, language: str) -> bool:
    """Note what code of node, perl, ruby or php plainly does; False when there is more to it."""
    rest = text

    def noted(found: re.Match[str]) -> str:
        said = next(one for one in found.groups()[:3] if one is not None)
        step.shell(said) if not found[4] else step.run(_arguments(said, found.string[found.end() :]))
        return " "

    rest = _RUNS.sub(noted, rest)
    if language in ("ruby", "perl", "php"):
        for found in _BACKTICK.finditer(rest):
            step.shell(next((one for one in found.groups() if one), ""))
        rest = _BACKTICK.sub(" ", rest)
    for found in _DELETES.finditer(rest):
        step.touch(found[2], delete=True, deep=True)
    rest = _DELETES.sub(" ", rest)
    for found in _WRITES.finditer(rest):
        step.touch(found[2])
    rest = _WRITES.sub(" ", rest)
    for found in _OPENS.finditer(rest):
        mode, path = (found[4], found[2]) if found[6] is None else (found[4], found[6])
        if found[6] is None and found[2].strip() in (">", ">>", "<", "+<"):
            mode, path = found[2], found[4]
        if any(mark in mode for mark in ">wax+"):
            step.touch(path)
        elif "|" in mode:
            step.shell(path)
        rest = rest.replace(found[0], " ")
    url = _URL.search(text)
    if _SENDS.search(rest):
        sent = _SENDS.search(rest)
        method = next((one for one in sent.groups() if one), "POST") if sent else "POST"
        request(step, method, url[0] if url else UNKNOWN)
        rest = _SENDS.sub(" ", rest)
    elif _ASKS.search(rest) and url:
        request(step, "GET", url[0])
    modules = [next(one for one in found.groups() if one) for found in _REQUIRE.finditer(rest)]
    if any(
        module not in _SAFE_REQUIRE
        and not module.startswith(("./", "../"))
        or module.startswith(".")
        and not module.endswith(".json")
        for module in modules
    ):
        return False
    if re.search(r"\b(require|import)\b", _REQUIRE.sub(" ", rest)) or UNKNOWN in rest:
        return False
    return _NEVER_PLAIN.search(_STRINGS.sub("''", _REQUIRE.sub(" ", rest))) is None


def _arguments(program: str, rest: str) -> list[str]:
    """Return the words of `spawn('rm', ['-rf', 'x'])`."""
    inside = re.match(r"\s*\[?([^\])]*)", rest)
    return [program, *(one[1] for one in re.findall(r"(['\"])(.*?)\1", inside[1] if inside else ""))]
