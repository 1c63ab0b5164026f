"""Hosts as programs spell them, and what kind of place an address is.

Whoever wants past a rule spells the host another way (`0x7f.1`, `2130706433`, `[::ffff:7f00:1]`, `EXAMPLE.com.`), so
there is one function that reads a host, and nothing is compared, resolved or connected to but what it returned.

Does not cover: what is allowed (`rules`), looking names up (`outside`).
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Host = str | Address

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_TOP = 1 << 32


class Kind(StrEnum):
    """What an address is that is not simply a place on the internet."""

    METADATA = "a cloud's metadata service"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link-local"
    PRIVATE = "a private network"
    SHARED = "shared by a carrier (CGNAT)"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    DISGUISED = "an IPv4 address in an IPv6 form"
    OWN = "this machine itself"


# The first that fits counts. RFC 6890 and its registry, but for the documentation ranges: nobody's services hide there.
_SPECIAL: tuple[tuple[Network, Kind], ...] = tuple(
    (ipaddress.ip_network(text), kind)
    for kind, texts in (
        # link-local, and what single clouds answer on: AWS and others, ECS, Azure, Oracle, Alibaba
        (
            Kind.METADATA,
            "169.254.169.254/32 169.254.170.2/32 168.63.129.16/32 192.0.0.192/32 100.100.100.200/32 fd00:ec2::254/128",
        ),
        (Kind.LOOPBACK, "127.0.0.0/8 ::1/128"),
        (Kind.LINK_LOCAL, "169.254.0.0/16 fe80::/10"),
        (Kind.PRIVATE, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10 64:ff9b:1::/48"),
        (Kind.SHARED, "100.64.0.0/10"),
        (Kind.MULTICAST, "224.0.0.0/4 ff00::/8"),
        (Kind.DISGUISED, "::ffff:0:0/96 64:ff9b::/96 2002::/16 2001::/32 ::ffff:0:0:0/96"),
        (Kind.RESERVED, "0.0.0.0/8 192.0.0.0/24 192.88.99.0/24 198.18.0.0/15 240.0.0.0/4 ::/96 2001::/23"),
    )
    for text in texts.split()
)
_GLOBAL6 = IPv6Network("2000::/3")
_ISATAP = (0x00005EFE, 0x02005EFE)


def read_host(text: str) -> Host:
    """Return an address, or a name in lower case without a final dot, in its ASCII form.

    Numbers are read as inet_aton(3) reads them: decimal, octal, hexadecimal, one to four parts. Raises ValueError.
    """
    if text.startswith("[") or text.endswith("]"):
        if not (text.startswith("[") and text.endswith("]")):
            raise ValueError("brackets do not match")
        return _address6(text[1:-1])
    if ":" in text:
        return _address6(text)
    name = unicodedata.normalize("NFKC", text).replace("\u3002", ".").lower()
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii").lower()
        except UnicodeError as error:
            raise ValueError("not a name that DNS can hold") from error
    name = name.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # as in URLs: a name that ends in a number is an address or nothing
        return _address4(labels)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("not a host name")
    return name


def _address6(text: str) -> Address:
    if "%" in text:
        raise ValueError("an address with a zone is of one machine only")
    return IPv6Address(text)


def _address4(parts: list[str]) -> IPv4Address:
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise ValueError("ends in a number but is no IPv4 address")
    numbers = [_number(part) for part in parts]
    last = numbers.pop()
    if any(number > 255 for number in numbers) or last >= _TOP >> 8 * len(numbers):
        raise ValueError("a number in this address is too big")
    value = last
    for at, number in enumerate(numbers):
        value |= number << 8 * (3 - at)
    return IPv4Address(value)


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8)  # ValueError for 08: nobody agrees on what that is
    if len(text) > 10:
        raise ValueError("a number in this address is too big")
    return int(text)


def read_authority(text: str, default_port: int | None = None) -> tuple[Host, int]:
    """Read `host:port` or `[v6]:port`; without a port the default, if there is one. Raises ValueError."""
    host, port = text, ""
    if text.startswith("["):
        end = text.find("]")
        host, rest = text[: end + 1], text[end + 1 :]
        if end < 0 or (rest and not rest.startswith(":")):
            raise ValueError("not host:port")
        port = rest[1:]
    elif ":" in text:
        host, _, port = text.partition(":")
        if ":" in port:
            raise ValueError("write an IPv6 address in brackets")
    if not host:
        raise ValueError("no host")
    if not port:
        if default_port is None or text.endswith(":"):
            raise ValueError("no port")
        return read_host(host), default_port
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise ValueError("a port is a number from 1 to 65535")
    return read_host(host), int(port)


def show(host: Host, port: int | None = None) -> str:
    """Write a host as `read_authority` reads it, with brackets only where a port follows."""
    if port is None:
        return str(host)
    return f"[{host}]:{port}" if isinstance(host, IPv6Address) else f"{host}:{port}"


def special(address: Address) -> tuple[Network, Kind] | None:
    """Return the range that makes an address none of the internet's, and its kind; None for an ordinary one."""
    for network, kind in _SPECIAL:
        if address.version == network.version and address in network:
            return network, kind
    if isinstance(address, IPv6Address):
        if address not in _GLOBAL6:
            return IPv6Network(address), Kind.RESERVED
        if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            return IPv6Network(address), Kind.DISGUISED
    return None


def faces(address: Address) -> tuple[Address, ...]:
    """Return an address and the IPv4 address that it leads to in another form, if any."""
    if not isinstance(address, IPv6Address):
        return (address,)
    value = int(address)
    inner: IPv4Address | None = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    if inner is None and (value >> 32 in (0x64FF9B << 64, 0xFFFF << 16, 0) or (value >> 32) & 0xFFFFFFFF in _ISATAP):
        inner = IPv4Address(value & 0xFFFFFFFF)
    return (address,) if inner is None else (address, inner)


def to_dial(address: Address) -> Address:
    """Return what is really connected to: an IPv4 address that was only written in the IPv6 way as itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
