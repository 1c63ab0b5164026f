"""HTTP by method and host: curl, wget, HTTPie, and programs that call an API.

Does not cover: what a server does on GET; reading is taken for reading.
"""

from __future__ import annotations

import re

from takeback.guard.command import Handler, Step
from takeback.guard.later import pattern
from takeback.guard.model import Class, Deed, Effect, Reason, What
from takeback.guard.places import LOCAL
from takeback.guard.words import PRINTED, SECRET, UNKNOWN, shown

_READS = ("GET", "HEAD", "OPTIONS", "TRACE")
_HOST = pattern(r"(?:[a-z][a-z+.-]*://)?(?:[^@/]*@)?(\[[^\]]*\]|[^:/?#]*)", re.IGNORECASE)
_BODY = (
    "-d",
    "--data",
    "--data-raw",
    "--data-binary",
    "--data-ascii",
    "--data-urlencode",
    "-F",
    "--form",
    "--form-string",
    "--json",
    "--post-data",
    "--post-file",
    "--body-data",
    "--body-file",
)


def host_of(url: str) -> str:
    """Return the host of a URL or of what is typed as one."""
    found = _HOST.match(url)
    return found[1] if found else ""


def request(step: Step, method: str, url: str) -> None:
    """Note one request: reads are of no class, others leave the machine unless they go to itself."""
    method, host = method.upper(), host_of(url)
    if UNKNOWN in method:
        method = "?"
    if url.startswith("file://"):
        return
    if LOCAL.match(host) or host.startswith(("/", ":")) or url.startswith(":"):
        if method not in _READS:
            why = f"{step.name} sends {method} to a server on this machine"
            # A server under development gets posts all day; what they do is its affair.
            reason = Reason.DESTROYS if method == "DELETE" else Reason.OPAQUE
            step.walk.add(Effect(Class.MACHINE, What.NETWORK, why, shown(host), method, reason))
        return
    if method in _READS:
        if PRINTED in url or SECRET in url:
            why = f"{step.name} sends what it read on this machine to {shown(host)}"
            step.walk.add(Effect(Class.OUTSIDE, What.NETWORK, why, shown(host), method))
        else:
            step.walk.add(Effect(Class.NONE, What.NETWORK, f"asks {shown(host)}", shown(host), method))
        return
    why = f"{step.name} sends {method} to {shown(host)}"
    step.walk.add(Effect(Class.OUTSIDE, What.NETWORK, why, shown(host), method))


def curl(step: Step) -> None:
    """curl and wget: method, body, what is sent along, and files written."""
    has, values = step.parsed.has, step.parsed.values
    urls = [*step.operands, *values("--url")]
    if has("-K", "--config") or (has("-i", "--input-file") and step.name == "wget"):
        step.deed(Deed.OPAQUE, f"{step.name} reads what to do from a file")
    method = _method(step)
    if has("-T", "--upload-file"):
        method = "PUT" if method in _READS else method
    if method in _READS and any(value[:1] in ("@", "<") or "=@" in value for value in values(*_BODY)):
        method = "POST"  # a file goes along, whatever the method is called
    commands = " ".join(values("-Q", "--quote", "--request-target"))
    if re.search(r"\b(DELE|RMD|RNFR|STOR|SITE)\b", commands):
        method = "DELETE"
    for header in values("-H", "--header", "-A", "--user-agent", "-e", "--referer", "-b", "--cookie"):
        if (PRINTED in header and method in _READS) or header.startswith("@"):
            method = "POST"  # something read here goes along
    for url in urls:
        if url.startswith(("smtp", "ftp://", "ftps://", "sftp://", "scp://", "telnet")) and (
            has("-T", "--upload-file") or "smtp" in url[:5]
        ):
            step.deed(Deed.OUTSIDE, f"{step.name} sends to {shown(host_of(url))}", shown(host_of(url)))
        else:
            request(step, method, url)
    if not urls and step.operands == []:
        if UNKNOWN in " ".join(step.words):
            request(step, method, UNKNOWN)
    _saved(step, urls)


def _method(step: Step) -> str:
    has, values = step.parsed.has, step.parsed.values
    given = values("-X", "--request", "--method")
    if given:
        return given[-1].strip()
    if has("-I", "--head", "--spider"):
        return "HEAD"
    if has(*_BODY):
        if has("-G", "--get"):
            return "POST" if any(value.startswith("@") or "@" in value[:20] for value in values(*_BODY)) else "GET"
        return "POST"
    return "GET"


def _saved(step: Step, urls: list[str]) -> None:
    has, values = step.parsed.has, step.parsed.values
    folder = next(iter(values("--output-dir", "-P", "--directory-prefix")), "")
    into = f"{folder.rstrip('/')}/" if folder else ""
    if step.name == "wget":
        names = values("-O", "--output-document")
        if not names and not has("--spider"):
            names = [into + (url.rstrip("/").rpartition("/")[2].partition("?")[0] or "index.html") for url in urls]
        names += values("-o", "--output-file", "-a", "--append-output")
    else:
        names = [into + one for one in values("-o", "--output")]
        if has("-O", "--remote-name", "--remote-name-all", "-J"):
            names += [into + (url.rstrip("/").rpartition("/")[2].partition("?")[0] or UNKNOWN) for url in urls]
        names += values(
            "-c", "--cookie-jar", "-D", "--dump-header", "--trace", "--trace-ascii", "--stderr", "--etag-save", "--hsts"
        )
    for name in names:
        if name:
            step.touch(name)


def httpie(step: Step) -> None:
    """HTTPie: `http [METHOD] URL [ITEM..]`; items make it a POST."""
    operands = list(step.operands)
    method = ""
    if operands and re.fullmatch(r"[A-Z]+|get|post|put|patch|delete|head|options", operands[0]):
        method = operands.pop(0).upper()
    if not operands:
        return
    url, items = operands[0], operands[1:]
    body = any(re.match(r"[^:=@]+(:=|=(?!=)|@)", item) for item in items) or step.parsed.has(
        "--raw", "-f", "--form", "--multipart"
    )
    request(step, method or ("POST" if body else "GET"), url)
    for name in step.parsed.values("-o", "--output"):
        step.touch(name)


def api(
    step: Step,
    option: str = "-X|--method|--request",
    fields: str = "-f|-F|--raw-field|--field|--input|--form|-d|--data",
) -> None:
    """A program that calls its own API, as `gh api`: fields make it a POST; GraphQL is read for mutations."""
    given = step.parsed.values(*option.split("|"))
    sent = step.parsed.values(*fields.split("|"))
    if "graphql" in step.operands:
        text = " ".join(sent)
        unseen = "query=@" in text or UNKNOWN in text.partition("query=")[2][:1] or "--input" in step.parsed.options
        method = "POST" if re.search(r"query=\s*mutation|\bmutation\b", text) or unseen else "GET"
    else:
        method = given[-1] if given else "POST" if sent or step.parsed.has(*fields.split("|")) else "GET"
    if method.upper() not in _READS:
        why = f"{step.name} sends {shown(method.upper())} to its API"
        step.walk.add(Effect(Class.OUTSIDE, What.NETWORK, why, step.name, shown(method.upper())))


def load(step: Step) -> None:
    """A program that sends many requests to the addresses it is given: to this machine, or away from it."""
    urls = [one for one in step.operands if "://" in one]
    proxy = step.parsed.has("-x", "-X", "--proxy", "-f", "--file")
    if not urls or proxy:
        step.deed(Deed.OUTSIDE)
    for url in urls:
        request(step, "POST", url)


def asks(step: Step) -> None:
    """Names and addresses that are asked for over the network: what was read here must not be in them."""
    if any(PRINTED in word or SECRET in word for word in step.words):
        step.deed(Deed.OUTSIDE, f"{step.name} sends what was read on this machine")


HANDLERS: dict[str, Handler] = {"curl": curl, "httpie": httpie, "api": api, "asks": asks, "load": load}
