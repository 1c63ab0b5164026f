"""What a sandbox may reach: the rules, read strictly, and the decision about one destination.

    deny      never, wins over all
    connect   host:port pairs, in addition to `allow`
    allow     empty: the internet; else only these
    internet  false: nothing at all

Names are `example.com` (that one) or `*.example.com` (all below it, not itself). Pure: no clock, no socket, no look-up.

Does not cover: looking names up and connecting (`outside`), keeping the rules (`keeper`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from takeback.errors import BadRule
from takeback.machines.network.addresses import (
    Address,
    Host,
    Kind,
    Network,
    faces,
    read_authority,
    read_host,
    show,
    special,
    to_dial,
)

ENTRIES_MAX = 1000
WEB_PORTS = (80, 443)
# Mail (spam from a user's own address), telnet, Windows RPC and shares, IRC: what a taken-over machine is used for.
FORBIDDEN_PORTS = (23, 25, 135, 137, 138, 139, 445, 465, 587, *range(6660, 6670))
LOCALHOST: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))

INTERNET_OFF = "internet-off"
NOT_ALLOWED = "rule-not-allowed"
# Whoever opens a pair by name trusts that name's owner with his private networks, but not with these.
_BY_NAME = (Kind.PRIVATE, Kind.SHARED)


@dataclass(frozen=True)
class Decision:
    """Whether a connection may be made: `code` for machines, `why` for people, and the only addresses it may go to."""

    allowed: bool
    code: str
    why: str
    add: str = ""  # the rule that would allow it, in words; empty: none can
    addresses: tuple[Address, ...] = ()


@dataclass(frozen=True)
class _Entries:
    names: frozenset[str] = frozenset()
    below: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def name(self, host: str) -> str:
        """Return the entry that names a host, or an empty text."""
        if host in self.names:
            return host
        parts = host.split(".")
        for at in range(1, len(parts)):
            if (parent := ".".join(parts[at:])) in self.below:
                return f"*.{parent}"
        return ""

    def network(self, address: Address) -> Network | None:
        for face in faces(address):
            for network in self.networks:
                if face.version == network.version and face in network:
                    return network
        return None

    def naming(self, address: Address, place: Network) -> bool:
        """Whether an entry means this special address: it lies within the special range, unlike 0.0.0.0/0."""
        for face in faces(address):
            found = special(face)
            wanted = found[0] if found else place
            for network in self.networks:
                if face.version == network.version == wanted.version and face in network:
                    if network.subnet_of(wanted):  # type: ignore[arg-type]
                        return True
        return False


@dataclass(frozen=True)
class Rules:
    """The rules of one sandbox, as they are stored: entries in the form they are compared in.

    Make them with `read_rules`, which refuses what cannot be meant.
    """

    internet: bool = True
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    _allow: _Entries = field(init=False, repr=False, compare=False)
    _deny: _Entries = field(init=False, repr=False, compare=False)
    _connect: frozenset[tuple[Host, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allow", _entries(self.allow))
        object.__setattr__(self, "_deny", _entries(self.deny))
        object.__setattr__(self, "_connect", frozenset(read_authority(entry) for entry in self.connect))

    @property
    def narrow(self) -> bool:
        """Whether some names are refused, so that it matters which one is really meant."""
        return not self.internet or bool(self.allow or self.deny)

    def before_lookup(self, host: Host, port: int) -> Decision | None:
        """Refuse what needs no addresses to be refused; None: `decide` once the addresses are known.

        A name nobody allowed is never looked up: the question itself would carry data outside.
        """
        if port in FORBIDDEN_PORTS:
            return Decision(False, NOT_ALLOWED, f"port {port} is never opened (mail, telnet, Windows shares, IRC)")
        if not self.internet:
            return Decision(False, INTERNET_OFF, "the internet is off for this sandbox", "internet: true")
        if isinstance(host, str) and (entry := self._deny.name(host)):
            return Decision(False, NOT_ALLOWED, f"{host} is denied by {entry!r}", f"none while deny has {entry!r}")
        if self.allow and (host, port) not in self._connect and not self._in_allow(host):
            add = f"allow: {show(host)}, or connect: {show(host, port)}"
            return Decision(False, NOT_ALLOWED, f"{show(host)} is not in allow", add)
        return None

    def decide(
        self, host: Host, port: int, addresses: Sequence[Address], own: Callable[[Address], bool] = lambda _: False
    ) -> Decision:
        """Decide about a destination with all the addresses it resolved to (itself, for an address).

        Allowed if at least one of them is; only those in the answer may be connected to. `own` tells an address of
        this machine.
        """
        early = self.before_lookup(host, port)
        if early is not None:
            return early
        refused = Decision(False, NOT_ALLOWED, f"{show(host)} has no address")
        kept: list[Address] = []
        for address in addresses:
            one = self._address(host, port, address, own)
            if one.allowed:
                kept.append(to_dial(address))
            else:
                refused = one
        if not kept:
            return refused
        return Decision(True, "allowed", self._because(host, port), addresses=tuple(dict.fromkeys(kept)))

    def unresolved(self, host: Host, port: int) -> Decision:
        """Decide by the name alone, where only somebody else (the host's own proxy) can look it up."""
        return self.before_lookup(host, port) or Decision(True, "allowed", self._because(host, port))

    def _in_allow(self, host: Host) -> bool:
        if isinstance(host, str):
            if self._allow.name(host):
                return True
            # never looked up, and always the same: as good as the address
            return is_localhost(host) and any(self._allow.network(address) for address in LOCALHOST)
        return self._allow.network(host) is not None

    def _address(self, host: Host, port: int, address: Address, own: Callable[[Address], bool]) -> Decision:
        shown = str(address)
        if entry := self._deny.network(address):
            return Decision(False, NOT_ALLOWED, f"{shown} is denied by {entry}", f"none while deny has {entry}")
        found = special(address)
        if found is None and own(address):
            found = ipaddress.ip_network(address), Kind.OWN
        if found is None:
            return Decision(True, "allowed", "")
        place, kind = found
        pair = (host, port) in self._connect and (
            kind in _BY_NAME or not isinstance(host, str) or (is_localhost(host) and kind is Kind.LOOPBACK)
        )
        if pair or self._allow.naming(address, place):
            return Decision(True, "allowed", "")
        name = "" if not isinstance(host, str) else f"{host} is "
        add = f"allow: {shown}, or connect: {show(address, port)}"
        return Decision(False, NOT_ALLOWED, f"{name}{shown}: {kind}, refused unless it is named", add)

    def _because(self, host: Host, port: int) -> str:
        if (host, port) in self._connect:
            return f"connect: {show(host, port)}"
        entry = self._allow.name(host) if isinstance(host, str) else self._allow.network(host)
        return f"allow: {entry}" if entry else "the internet is on"

    def to_json(self) -> dict[str, Any]:
        """Return the four that make the rules, as they are kept."""
        lists = {"allow": list(self.allow), "deny": list(self.deny), "connect": list(self.connect)}
        return {"internet": self.internet, **lists}

    def shown(
        self, sandbox_id: str, *, version: int, enforced_version: int, updated_at: str, enforced: bool = True
    ) -> dict[str, Any]:
        """Return the record programs of the hosted client read; `updated_at` in RFC 3339."""
        return {
            "sandboxId": sandbox_id,
            **self.to_json(),
            "version": version,
            "enforced": enforced and version == enforced_version,
            "enforcedVersion": enforced_version,
            "ports": list(WEB_PORTS),
            "openPorts": True,  # it is the user's own line: every port but the forbidden ones
            "connectAllowed": True,
            "connectReason": "granted",
            "forbiddenPorts": list(FORBIDDEN_PORTS),
            "updatedAt": updated_at,
        }


def is_localhost(host: Host) -> bool:
    """Whether a name is this machine's by definition (RFC 6761), whatever a resolver says."""
    return isinstance(host, str) and (host == "localhost" or host.endswith(".localhost"))


def read_rules(
    internet: object = True,
    allow: object = None,
    deny: object = None,
    connect: object = None,
) -> Rules:
    """Read rules as a program gives them; an omitted list is empty.

    `internet=False` with something in `allow` means only that, and is kept as `internet=True`. Raises BadRule.
    """
    if not isinstance(internet, bool):
        raise BadRule(where="internet", entry=internet, why="it is true or false", next="say True or False")
    allowed = tuple(dict.fromkeys(_entry("allow", entry) for entry in _list("allow", allow)))
    denied = tuple(dict.fromkeys(_entry("deny", entry) for entry in _list("deny", deny)))
    pairs = tuple(dict.fromkeys(_pair(entry) for entry in _list("connect", connect)))
    return Rules(internet or bool(allowed), allowed, denied, pairs)


def _list(where: str, given: object) -> list[str]:
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadRule(where=where, entry=given, why="it is a list", next=f"write {where}=[...]")
    entries = list(given)
    if len(entries) > ENTRIES_MAX:
        why = f"{len(entries)} entries, at most {ENTRIES_MAX}"
        raise BadRule(where=where, entry=entries[ENTRIES_MAX], why=why, next="use *.names and ranges")
    for entry in entries:
        if not isinstance(entry, str):
            raise BadRule(where=where, entry=entry, why="it is no text", next="write each entry as a text")
    return entries


def _entry(where: str, entry: str) -> str:
    """Return an entry of `allow` or `deny` in the form it is compared in."""

    def bad(why: str, step: str) -> BadRule:
        return BadRule(where=where, entry=entry, why=why, next=step)

    text = entry.strip()
    if not text:
        raise bad("it is empty", "leave it out")
    if text in ("*", "*.", "*.*"):
        step = "leave allow empty for the whole internet" if where == "allow" else "use internet=False"
        raise bad("a * alone stands for no names", step)
    if "%" in text:
        raise bad("an address with a zone is of one machine only", "leave the zone out")
    if "://" in text:
        raise bad("it is a URL", "give only the host")
    if "/" in text:
        try:
            return str(ipaddress.ip_network(text))
        except ValueError as error:
            raise bad(str(error), "a range is written 192.0.2.0/24, a URL's path cannot be part of a rule") from error
    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    if ":" in text:
        raise bad("it has a port", f"allow and deny mean every port; for one port use connect=[{text!r}]")
    star, name = (text[:2], text[2:]) if text.startswith("*.") else ("", text)
    if "*" in name:
        raise bad("a * stands only for all names below one", "write *.example.com")
    try:
        host = read_host(name)
    except ValueError as error:
        raise bad(str(error), "write a name, *.name, an IP address or a range") from error
    if not isinstance(host, str):
        raise bad("it is a number in disguise", f"write {host}")
    return star + host


def _pair(entry: str) -> str:
    def bad(why: str, step: str) -> BadRule:
        return BadRule(where="connect", entry=entry, why=why, next=step)

    try:
        host, port = read_authority(entry.strip())
    except ValueError as error:
        raise bad(str(error), "write host:port, such as db.example.com:5432 or [2001:db8::1]:22") from error
    if port in FORBIDDEN_PORTS:
        raise bad(f"port {port} is never opened", "mail, telnet, Windows shares and IRC cannot be reached")
    return show(host, port)


def _entries(entries: Iterable[str]) -> _Entries:
    names, below, networks = set(), set(), []
    for entry in entries:
        if entry.startswith("*."):
            below.add(entry[2:])
            continue
        try:
            networks.append(ipaddress.ip_network(entry))
        except ValueError:
            names.add(entry)
    return _Entries(frozenset(names), frozenset(below), tuple(networks))
