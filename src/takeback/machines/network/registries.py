"""The preset `registries`: the places that the user's own pip, npm and apt are configured to fetch packages from.

No host is written down here: each tool is asked, so a company's mirror, an index in pip.conf, a scope of npm's and
deb822 sources are all found, and nobody's public registry is opened behind a mirror that was set up to avoid it.

Does not cover: what the tools inside a sandbox are configured to use, which is the image's.
"""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from takeback.host import process
from takeback.machines.network.addresses import read_host, show

NAME = "registries"
_ASK_S = 20.0
_PORTS = {"http": 80, "https": 443}
_PASSED = ("PIP_", "NPM_CONFIG_", "APT_CONFIG")
_PIP = (("pip",), ("pip3",), ("python3", "-m", "pip"))
_PIP_URLS = ("index-url", "extra-index-url", "find-links")
# What pip knows of the index it uses when none is configured, and where that one's files are (its models/index.py).
_KNOWN_INDEX = re.compile(r"PackageIndex\(\s*\"(https?://[^\"]+)\",\s*file_storage_domain=\"([^\"]+)\"")


@dataclass(frozen=True)
class Preset:
    """What may be reached: `allow` and `connect` for the rules, `found` as (tool, URL), `missing` as (tool, why)."""

    allow: tuple[str, ...]
    connect: tuple[str, ...]
    found: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...]


def registries(environ: Mapping[str, str]) -> Preset:
    """Ask the tools that are installed here; `environ` is the user's. Takes up to a few seconds, never fails."""
    env = {name: value for name, value in environ.items() if name.upper().startswith(_PASSED)}
    found: list[tuple[str, str]] = []
    missing: list[tuple[str, str]] = []
    for tool, ask in (("pip", _pip), ("npm", _npm), ("apt", _apt)):
        try:
            urls = list(dict.fromkeys(ask(env)))
        except (OSError, ValueError, TimeoutError) as error:
            missing.append((tool, str(error)))
            continue
        found += [(tool, url) for url in urls]
        if not urls:
            missing.append((tool, "it is not configured to use any"))
    pairs = list(dict.fromkeys(pair for _, url in found if (pair := _pair(url)) is not None))
    allow = tuple(dict.fromkeys(host for host, _ in pairs))
    # A pair as well: a mirror in the user's own network has a private address.
    return Preset(allow, tuple(where for _, where in pairs), tuple(found), tuple(missing))


def expand(
    allow: Iterable[str], connect: Iterable[str], environ: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return `allow` and `connect` with the entry `registries` of `allow` replaced by what it stands for."""
    allowed, pairs = tuple(allow), tuple(connect)
    if NAME not in allowed:
        return allowed, pairs
    preset = registries(environ)
    kept = tuple(entry for entry in allowed if entry != NAME) + preset.allow
    # With nothing found, an empty list would mean the whole internet: the name stays, and leads nowhere.
    return kept or (NAME,), pairs + preset.connect


def _pair(url: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
        host = read_host(parts.hostname or "")
    except (KeyError, ValueError):
        return None  # file:, cdrom:, a malformed one
    return show(host), show(host, port)


def _pip(env: Mapping[str, str]) -> Iterable[str]:
    pip, version = _first_of(_PIP, "--version", env)
    lines = _ask([*pip, "config", "list"], env).splitlines()
    urls: list[str] = []
    index_given = off = False
    for line in lines:
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        if name == "no-index":
            off = ast.literal_eval(value).lower() in ("1", "true", "yes", "on")
        elif name in _PIP_URLS:
            index_given = index_given or name == "index-url"
            urls += ast.literal_eval(value).split()
    if off:
        return [url for url in urls if "://" in url]
    known = _known_index(version)
    if not index_given and known:
        urls.insert(0, known[0])
    if known and any(urlsplit(url).hostname == urlsplit(known[0]).hostname for url in urls):
        urls.append(known[1])
    return [url for url in urls if "://" in url]


def _known_index(version: str) -> tuple[str, str] | None:
    """Return pip's default index and where its files are, from the pip that `pip --version` says it is."""
    match = re.search(r" from (.+) \(python", version)
    if match is None:
        return None
    try:
        source = (Path(match[1]) / "_internal" / "models" / "index.py").read_text(encoding="utf-8")
    except OSError:
        return None
    known = _KNOWN_INDEX.search(source)
    return (known[1], f"https://{known[2]}/") if known else None


def _npm(env: Mapping[str, str]) -> Iterable[str]:
    # Else npm leaves a log of every question in the user's home.
    with tempfile.TemporaryDirectory(prefix="takeback-npm-") as elsewhere:
        config = json.loads(_ask(["npm", "config", "ls", "--json"], {**env, "npm_config_cache": elsewhere}))
    return [
        value
        for name, value in config.items()
        if (name == "registry" or name.endswith(":registry")) and isinstance(value, str)
    ]


def _apt(env: Mapping[str, str]) -> Iterable[str]:
    sites = _ask(["apt-get", "indextargets", "--format", "$(SITE)"], env).split()
    config = _ask(["apt-config", "dump", "--format", "%f=%v%n"], env).splitlines()
    proxies = [line.partition("=")[2] for line in config if re.match(r"Acquire::https?::Proxy(::[^=]*)?=", line)]
    return [*sites, *(proxy for proxy in proxies if "://" in proxy)]


def _first_of(programs: Sequence[Sequence[str]], argument: str, env: Mapping[str, str]) -> tuple[Sequence[str], str]:
    failed: Exception = FileNotFoundError("not installed")
    for program in programs:
        try:
            return program, _ask([*program, argument], env)
        except (OSError, ValueError) as error:
            failed = error
    raise failed


def _ask(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return what a tool prints. Raises OSError when it is not there, ValueError when it fails, TimeoutError."""
    try:
        done = process.start(argv, env=process.clean_environment(env)).finish(_ASK_S)
    except FileNotFoundError:
        raise FileNotFoundError("not installed") from None
    except Exception as error:  # subprocess's own, which only `host` may name
        if type(error).__name__ == "TimeoutExpired":
            raise TimeoutError(f"`{' '.join(argv)}` gave no answer within {_ASK_S:g} s") from None
        raise
    if done.code != 0:
        said = done.err.decode(errors="replace").strip().splitlines()
        raise ValueError(f"`{' '.join(argv)}` failed: {said[-1] if said else done.code}")
    return done.out.decode(errors="replace")
