"""Blanks what looks like a key or a password in text that is shown: commands, the ends of outputs, messages.

Two ways to know one: a shape its maker publishes so that scanners find it (`ghp_...`, a private key), or the place it
stands in (`TOKEN=...`, `--password ...`, `https://user:...@host`, an Authorization header). What is only named after a
secret stays: `--token-file x`, `max_tokens=4096`, `PASSWORD=$PASSWORD`.

Pure. Does not cover: what is stored (exact, and readable by its owner only), or secrets without shape or place.
"""

from __future__ import annotations

import re
from functools import cache

BLANK = "***"

_SHAPES = (
    r"gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|gl(?:pat|ptt|rt|dt|soat|agent)-[\w-]{16,}",
    r"sk-(?:proj|ant|svcacct|admin|or|lf|live|test)-[\w-]{16,}|sk-[A-Za-z0-9]{20,}[\w-]*",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[\w+/=]{16,}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}",
    r"eyJ[\w-]{8,4000}\.[\w-]{4,8000}\.[\w-]*",
    r"xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}",
    r"npm_[A-Za-z0-9]{30,}|pypi-AgE[\w-]{16,}|pypi-[\w-]{60,}|rubygems_[0-9a-f]{32,}|cio[A-Za-z0-9]{32}",
    r"hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}",
    r"do[opr]_v1_[0-9a-f]{32,}|dckr_(?:pat|oat)_[\w-]{16,}|hv[sbr]\.[\w-]{20,}|SG\.[\w-]{16,90}\.[\w-]{16,}",
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,}|lin_api_[A-Za-z0-9]{20,}|glsa_\w{20,}|sbp_[0-9a-f]{30,}|tskey-[\w-]{16,}",
    r"ntn_[A-Za-z0-9]{20,}|PMAK-[\w-]{20,}|key-[0-9a-f]{32}|\d{8,10}:AA[\w-]{30,}",
)
_KEY_BEGIN = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"

# A word of a shell, with its quotes; what a variable or a command stands for is no secret itself.
# Only its first part may have blanks: a quote that closes what is around it must not swallow the next name.
_OTHER = r"\\.|[^\s&;|<>'\"\\),}\]]|[,)}\]](?=\S)"
_WORD = (
    r"(?!\$[\w{(]|[\"']\$[\w{(]|\*\*\*|[\"']\*\*\*)"
    rf"(?:'[^'\n]*'|\"(?:[^\"\\\n]|\\.)*\"|{_OTHER})"
    rf"(?:'[^'\s]*'|\"(?:[^\"\\\s]|\\.)*\"|{_OTHER})*+"
)
_PLAIN = r"(?!true\b|false\b|null\b|none\b|None\b|nil\b|undefined\b|@)"
_LONG = (
    r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key(?:[_-]?id)?|(?:secret|private|auth|account|master"
    r"|signing|encryption)[_-]?key|credentials?|auth[_-]?token)"
)
_NAME = rf"(?:[\w.-]{{0,60}}{_LONG}|\w{{1,60}}[_-](?:pass|pwd|pw|auth|pat))"
_HEADER = (
    r"(?:proxy-)?authorization|x-[\w-]{0,40}(?:key|token|secret|auth)|private-token"
    r"|(?:set-)?cookie|api-?key|x-amz-security-token"
)
_LOGINS = (
    r"(?:sshpass|(?:docker|podman|buildah|skopeo|helm\s+registry|oc|az|nerdctl)\s+login"
    r"|mongo\w*|cqlsh|clickhouse-client|sqlcmd)"
)
_UP_TO = r"\b[^|;&\n]{0,200}?\s"

# Each: what stays before (group 1), then what is blanked.
_PLACES = (
    # https://user:password@host, and a long name alone, which is a token
    (r"(://[^/\s:@'\"]*:)[^/\s'\"]+(?=@)", re.I),
    (r"(://)(?!\*\*\*)[^/\s:@'\"]{20,}(?=@)", 0),
    (rf"\b((?:{_HEADER})[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer|token|digest|apikey|bot|key)\s+)?+)(?!\$[\w{{(]|\*\*\*)[^\s\"'\\]+",
     re.I),
    (r"\b(bearer\s+)(?!\$|\*\*\*)[\w.~+/=-]{12,}", re.I),
    (r"(hooks\.slack\.com/(?:services|workflows)/)[\w/-]+", re.I),
    (r"(discord(?:app)?\.com/api/webhooks/\d+/)[\w-]+", re.I),
    # NAME=value, "name": "value", name: "value", name = "value"
    (rf"(?<![\w$])({_NAME}=)(?!=){_PLAIN}{_WORD}", re.I),
    (rf"(?<![\w$])(\\?[\"']{_NAME}\\?[\"']\s*:\s*){_PLAIN}(?=\\?[\"'\d]){_WORD}", re.I),
    (rf"(?<![\w$])({_NAME}\s*(?::|\s=(?!=)|=(?=\s))\s*)(?=(?:'\"'\"'|[\"'])[^\s\"'])(?![\"']\$){_WORD}", re.I),
    # a line of YAML, or a name of several words
    (rf"((?:^|[\"'])[ \t]*(?:-[ \t]+)?{_LONG}:[ \t]+){_PLAIN}(?![\"'$]|\*\*\*)[^\s\"']+(?=[ \t]*(?:$|[\"']))",
     re.I | re.M),
    (rf"(?<![\w$])(\w{{1,60}}[_-]{_LONG}:[ \t]+){_PLAIN}(?![\"'$]|\*\*\*)[^\s\"']+", re.I),
    # --password value, --password=value
    (rf"(?<!\S)(--?(?!no-)(?:[\w-]{{0,60}}-)?{_LONG}(?:=|\s+))(?!-|id=|type=){_PLAIN}{_WORD}", re.I),
    (rf"\b((?:mysql|mariadb)[\w-]*{_UP_TO}-p)(?=\S)(?!ort\b|rotocol\b){_WORD}", 0),
    (rf"\b({_LOGINS}{_UP_TO}-p\s*)(?!-|assword\b){_WORD}", 0),
    (rf"\b(redis-cli{_UP_TO}-a\s*)(?!-){_WORD}", 0),
    (rf"\b((?:unzip|zip|7z\w*)\b{_UP_TO}-[pP]\s?)(?!-){_WORD}", 0),
    (r"\b((?:curl|wget|http|https|xh)\b[^|;&\n]{0,200}?\s(?:-u|--user|-U|--proxy-user|-a|--auth)[\s=]*[\"']?[^\s:\"'/]+:)"
     r"(?!//|\$|\*\*\*)[^\s\"']+", 0),
    (r"(-pass(?:in|out)?\s+pass:)(?!\*\*\*|\$)\S+", 0),
    (rf"(--from-literal[=\s]+[\w.-]+=)(?!=){_WORD}", 0),
    (rf"\b(\w{{0,40}}(?:secret_access_key|session_token|_authToken|_password|_auth)\s+)(?!-){_WORD}", re.I),
    (rf"\b(secret\s+set\b[^|;&\n]{{0,200}}?\s(?:-b|--body)[\s=]+){_WORD}", 0),
)  # fmt: skip


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    made = [
        (re.compile(rf"{_KEY_BEGIN}.*?(?:{_KEY_END}|\Z)", re.DOTALL), BLANK),
        # The end of an output may begin in the middle of a key.
        (re.compile(rf"\A[A-Za-z0-9+/=\s\\]+{_KEY_END}"), BLANK),
        (re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_SHAPES)})"), BLANK),
    ]
    made += [(re.compile(place, flags), rf"\g<1>{BLANK}") for place, flags in _PLACES]
    return tuple(made)


def redacted(text: str) -> str:
    """Return `text` with `***` in the place of each secret; the same text when there is none."""
    for pattern, blank in _compiled():
        text = pattern.sub(blank, text)
    return text
