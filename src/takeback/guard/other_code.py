"""Inline code of node, perl, ruby and php, read by the calls that are plain to see.

Does not cover: their grammars; a word that could do more makes the code opaque.
"""

from __future__ import annotations

import re

from takeback.guard.command import Step
from takeback.guard.http import request
from takeback.guard.later import pattern
from takeback.guard.words import UNKNOWN

_RUNS = pattern(
    r"\b(?:execSync|execFileSync|exec|spawnSync|spawn|execFile|system|popen|shell_exec|passthru|proc_open"
    r"|capture2e?|capture3|syscall)\s*[(\s]\s*"
    r"(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`([^`]*)`)(\s*,)?"
)
_BACKTICK = pattern(r"`([^`]*)`|\bqx[{(/|]([^})/|]*)|%x[{(\[]([^})\]]*)")
_DELETES = pattern(
    r"\b(?:rmSync|rm|unlinkSync|unlink|rmdirSync|rmdir|rm_rf|rm_r|rm_f|remove|removeSync|delete|remove_dir|rmtree"
    r"|remove_tree|rimraf"
    r"|emptyDirSync|remove_entry|remove_entry_secure)\s*[(\s]\s*(['\"])(.*?)\1"
)
_WRITES = pattern(
    r"\b(?:writeFileSync|writeFile|appendFileSync|appendFile|createWriteStream|file_put_contents|write|mkdirSync"
    r"|mkdir|mkdir_p|touch|outputFile\w*"
    r"|mkdirp|truncateSync|binwrite)\s*[(\s]\s*(['\"])(.*?)\1"
)
_OPENS = pattern(
    r"\b(?:open|fopen|File\.open"
    r"|File\.new)\s*[(\s]\s*(?:[$\w]+\s*,\s*)?(['\"])(.*?)\1\s*,\s*(['\"])([^'\"]*)\3(?:\s*,\s*(['\"])(.*?)\5)?"
)
_SENDS = pattern(
    r"method['\"]?\s*(?::|=>)\s*['\"](POST|PUT|PATCH|DELETE)['\"]|\.(post|put|patch|delete)\s*\(\s*['\"]"
    r"|Net::HTTP\.post|::Post\.new|CURLOPT_POST"
    r"|\bsendBeacon\b|nodemailer|sendMail|Net::SMTP|\bmail\s*\(",
    re.IGNORECASE,
)
_URL = pattern(r"https?://[^\s'\"`)]+")
_ASKS = pattern(
    r"\b(fetch|axios|http\.get|https\.get|Net::HTTP\.get|URI\.open|file_get_contents|LWP::Simple|open-uri|got)\b"
)
_NEVER_PLAIN = pattern(
    r"\b(eval|Function|import\(|child_process|spawn|exec|fork|system|net|dgram|tls|cluster|worker_threads|vm"
    r"|process\.(kill|chdir|exit\w+|dlopen|binding)|unlink|rm\w*"
    r"|rename\w*|chmod\w*|chown\w*|write\w*File\w*|appendFile\w*|symlink\w*|copyFile\w*|truncate\w*|Socket"
    r"|TCPSocket|UDPSocket|FileUtils|kill|syscall|send|load|instance_eval"
    r"|class_eval|Kernel|IO\.(write|popen|binwrite)|File\.(write|delete|open|rename|unlink|chmod|symlink|new)"
    r"|Dir\.(mkdir|rmdir|delete|unlink|chdir)|fopen|fwrite"
    r"|file_put_contents|passthru|shell_exec|proc_open|popen|include|unserialize|mail|move_uploaded_file|rmdir"
    r"|mkdir|Bun\.(write|\$|spawn)|Deno\.(write\w*|remove|run"
    r"|Command|mkdir|rename))\b"
)
_REQUIRE = pattern(
    r"\brequire\s*\(?\s*['\"]([^'\"]+)['\"]|\bfrom\s+['\"]([^'\"]+)['\"]|\bimport\s+['\"]([^'\"]+)['\"]"
    r"|\buse\s+([A-Z][\w:]*)"
)
_SAFE_REQUIRE = frozenset(
    "fs path os util url crypto assert events querystring buffer zlib string_decoder timers json date set time "
    "yaml digest securerandom pp erb ostruct bigdecimal "
    "prime csv strict warnings Data::Dumper List::Util POSIX Time::HiRes JSON JSON::PP MIME::Base64 Digest::MD5 "
    "Digest::SHA http https net/http uri open-uri fileutils "
    "child_process open3 node:fs node:path node:os node:util node:crypto node:child_process node:process process "
    "File::Path utf8 LWP::Simple Encode Getopt::Long".split()
)
_STRINGS = pattern(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`")


def other(step: Step, text: str, language: str) -> bool:
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
        (module not in _SAFE_REQUIRE and not module.startswith(("./", "../")))
        or (module.startswith(".") and not module.endswith(".json"))
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
