"""What rules mean, as a table, and that nothing written another way means something else."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.errors import BadRule
from takeback.machines.network.addresses import Host, read_authority, read_host, show, special
from takeback.machines.network.rules import FORBIDDEN_PORTS, INTERNET_OFF, NOT_ALLOWED, Decision, Rules, read_rules

PUBLIC = "198.51.100.7"


def decide(rules: Rules, where: str, *addresses: str, port: int = 443) -> Decision:
    host: Host
    host, port = read_authority(where, port)
    found = [ipaddress.ip_address(text) for text in addresses or (PUBLIC,)] if isinstance(host, str) else [host]
    return rules.decide(host, port, found)


@pytest.mark.parametrize(
    ("rules", "where", "allowed"),
    [
        ({}, "example.com", True),
        ({}, "8.8.8.8", True),
        ({}, "example.com:8443", True),
        ({}, "[2606:4700::1]", True),
        ({"internet": False}, "example.com", False),
        ({"internet": False, "connect": ["example.com:443"]}, "example.com", False),
        ({"internet": False, "allow": ["example.com"]}, "example.com", True),
        ({"internet": False, "allow": ["example.com"]}, "example.org", False),
        ({"allow": ["example.com"]}, "EXAMPLE.com.", True),
        ({"allow": ["example.com"]}, "www.example.com", False),
        ({"allow": ["example.com"]}, "notexample.com", False),
        ({"allow": ["example.com"]}, "example.com.evil.test", False),
        ({"allow": ["*.example.com"]}, "a.b.example.com", True),
        ({"allow": ["*.example.com"]}, "example.com", False),
        ({"allow": ["*.example.com"]}, "xexample.com", False),
        ({"allow": ["bücher.example"]}, "xn--bcher-kva.example", True),
        ({"allow": ["xn--bcher-kva.example"]}, "BÜCHER.example", True),
        ({"allow": ["8.8.8.0/24"]}, "8.8.8.8", True),
        ({"allow": ["8.8.8.0/24"]}, "8.8.9.8", False),
        ({"allow": ["2606:4700::/32"]}, "[2606:4700::1]", True),
        ({"allow": ["example.com"], "connect": ["db.example.org:5432"]}, "db.example.org:5432", True),
        ({"allow": ["example.com"], "connect": ["db.example.org:5432"]}, "db.example.org:5433", False),
        ({"deny": ["example.com"]}, "example.com", False),
        ({"deny": ["*.example.com"]}, "a.example.com", False),
        ({"allow": ["a.example.com"], "deny": ["*.example.com"]}, "a.example.com", False),
        ({"connect": ["a.example.com:443"], "deny": ["a.example.com"]}, "a.example.com", False),
        ({"deny": ["8.8.8.8"]}, "8.8.8.8", False),
        ({"deny": ["8.8.8.8"]}, "134744072", False),
        ({"deny": ["8.8.8.8"]}, "[::ffff:8.8.8.8]", False),
        ({"deny": ["8.8.8.8"]}, "[64:ff9b::808:808]", False),
        ({"deny": ["8.8.8.8"]}, "[2002:808:808::1]", False),
        ({"allow": ["10.0.0.0/8"]}, "10.1.2.3", True),
        ({"allow": ["0.0.0.0/0", "::/0"]}, "10.1.2.3", False),
        ({"allow": ["0.0.0.0/0"]}, "8.8.8.8", True),
        ({"allow": ["169.0.0.0/8"]}, "169.254.169.254", False),
        ({"allow": ["169.254.0.0/16"]}, "169.254.169.254", False),
        ({"allow": ["169.254.169.254"]}, "169.254.169.254", True),
        ({"connect": ["10.0.0.5:5432"]}, "10.0.0.5:5432", True),
        ({"connect": ["10.0.0.5:5432"]}, "10.0.0.5:5433", False),
        ({"connect": ["10.0.0.5:5432"]}, "example.com", True),
        ({"connect": ["127.0.0.1:8000"]}, "127.0.0.1:8000", True),
        ({"connect": ["localhost:8000"]}, "127.0.0.1:8000", False),
    ],
)
def test_rules(rules: dict[str, object], where: str, allowed: bool) -> None:
    assert decide(read_rules(**rules), where).allowed is allowed


@pytest.mark.parametrize(
    ("rules", "addresses", "kept"),
    [
        ({}, [PUBLIC, "10.0.0.1"], [PUBLIC]),
        ({}, ["10.0.0.1", "::1"], []),
        ({}, [], []),
        ({"deny": ["198.51.100.0/24"]}, [PUBLIC, "8.8.8.8"], ["8.8.8.8"]),
        ({"connect": ["name.test:443"]}, ["10.0.0.1", "127.0.0.1", "169.254.169.254"], ["10.0.0.1"]),
        ({"allow": ["name.test"]}, ["10.0.0.1"], []),
        ({"allow": ["name.test", "10.0.0.0/24"]}, ["10.0.0.1", "10.0.1.1"], ["10.0.0.1"]),
        ({"allow": ["name.test", "127.0.0.1"]}, ["::ffff:127.0.0.1"], ["127.0.0.1"]),
    ],
)
def test_only_addresses_that_were_allowed_may_be_connected_to(
    rules: dict[str, object], addresses: list[str], kept: list[str]
) -> None:
    decision = read_rules(**rules).decide("name.test", 443, [ipaddress.ip_address(text) for text in addresses])
    assert [str(address) for address in decision.addresses] == kept
    assert decision.allowed is bool(kept)


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254"),
        *("169.254.1.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.0.0.1"),
        *("192.0.0.192", "192.88.99.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("168.63.129.16", "169.254.170.2", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8"),
        *("64:ff9b::8.8.8.8", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::1", "fe80::1", "fec0::1"),
        *("fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "5f00::1", "4000::1", "2606:4700::5efe:7f00:1"),
    ],
)
def test_what_is_not_the_internet_is_refused_unless_it_is_named(address: str) -> None:
    found = ipaddress.ip_address(address)
    assert not read_rules().decide(found, 443, [found]).allowed
    assert read_rules(allow=[address]).decide(found, 443, [found]).allowed
    assert read_rules(connect=[show(found, 443)]).decide(found, 443, [found]).allowed


def test_an_address_of_this_machine_is_refused_unless_it_is_named() -> None:
    own = ipaddress.ip_address(PUBLIC)
    assert not read_rules().decide(own, 443, [own], lambda _: True).allowed
    assert not read_rules(allow=["198.51.100.0/24"]).decide(own, 443, [own], lambda _: True).allowed
    assert read_rules(allow=[PUBLIC]).decide(own, 443, [own], lambda _: True).allowed


@pytest.mark.parametrize("port", FORBIDDEN_PORTS)
def test_forbidden_ports_stay_closed_whatever_is_allowed(port: int) -> None:
    decision = decide(read_rules(allow=["example.com"]), "example.com", port=port)
    assert not decision.allowed and f"port {port}" in decision.why
    with pytest.raises(BadRule):
        read_rules(connect=[f"example.com:{port}"])


def test_the_code_tells_off_from_not_allowed() -> None:
    assert decide(read_rules(internet=False), "example.com").code == INTERNET_OFF
    assert decide(read_rules(allow=["a.test"]), "example.com").code == NOT_ALLOWED


def test_internet_false_with_an_allow_list_is_kept_as_that_list() -> None:
    assert read_rules(internet=False, allow=["a.test"]) == read_rules(internet=True, allow=["a.test"])


def test_an_empty_list_and_none_are_the_same() -> None:
    assert read_rules(allow=[], deny=(), connect=None) == read_rules()


@pytest.mark.parametrize(
    ("where", "given"),
    [
        *(("allow", [bad]) for bad in ("", " ", "*", "*.*", "a.*.test", "https://a.test", "a.test/x", "a.test:80")),
        *(("allow", [bad]) for bad in ("10.0.0.1/8", "10.0.0.0/33", "127.1", "0x7f.1", "1.2.3.4.5", "a b", "-a.test")),
        *(("deny", [bad]) for bad in ("*", "a..test", "x" * 64 + ".test", "fe80::1%eth0", "a.test\n.b", 7, None)),
        *(
            ("connect", [bad])
            for bad in ("a.test", "a.test:", "a.test:0", "a.test:65536", ":80", "*.a.test:80", "::1:80")
        ),
        *(("connect", [bad]) for bad in ("a.test:x", "a.test:8²", "[::1]", "a.test:25", "user@a.test:80")),
        ("allow", "a.test"),
        ("allow", 7),
        ("deny", ["a.test"] * 1001),
        ("internet", "yes"),
        ("internet", 1),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_hint(where: str, given: object) -> None:
    with pytest.raises(BadRule) as caught:
        read_rules(**{where: given})
    assert where in str(caught.value) and caught.value.hint_text


def test_entries_are_kept_in_the_form_they_are_compared_in() -> None:
    rules = read_rules(
        allow=["Example.COM.", "*.BÜCHER.example", "[2001:DB8::1]", "example.com"], connect=["A.Test:22"]
    )
    assert rules.allow == ("example.com", "*.xn--bcher-kva.example", "2001:db8::1")
    assert rules.connect == ("a.test:22",)
    assert read_rules(**rules.to_json()) == rules


def test_the_record_has_all_that_programs_index() -> None:
    shown = read_rules(allow=["a.test"]).shown("sb1", version=3, enforced_version=2, updated_at="2026-01-01T00:00:00Z")
    assert shown == {
        "sandboxId": "sb1",
        "internet": True,
        "allow": ["a.test"],
        "deny": [],
        "connect": [],
        "version": 3,
        "enforced": False,
        "enforcedVersion": 2,
        "ports": [80, 443],
        "openPorts": True,
        "connectAllowed": True,
        "connectReason": "granted",
        "forbiddenPorts": list(FORBIDDEN_PORTS),
        "updatedAt": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7F000001", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("0x7f.0.0.1", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("①②⑦.0.0.1", "127.0.0.1"),
        ("127\u30020\u30020\u30021", "127.0.0.1"),
        ("0x", "0.0.0.0"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::FFFF:7f00:1", "::ffff:127.0.0.1"),
    ],
)
def test_a_number_in_any_spelling_is_its_address(text: str, address: str) -> None:
    assert read_host(text) == ipaddress.ip_address(address)


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a..b", "256.1.1.1", "1.2.3.4.5", "4294967296", "08.1.1.1", "a.1", "[::1", "::1]"),
        *("[a]", "a\x00b", "a b", "a/b", "a@b", "a%2eb", "a:b", "fe80::1%1", "-a", "a-", "x" * 64, "\ud800"),
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_host(text)


@given(st.ip_addresses())
def test_an_address_is_read_back_as_it_is_shown(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert read_host(str(address)) == address
    assert read_authority(show(address, 443)) == (address, 443)


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "64:ff9b::", "::"]))
def test_a_special_address_is_special_in_every_ipv6_form(address: ipaddress.IPv4Address, prefix: str) -> None:
    other = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(address))
    assert special(other) is not None
    assert not read_rules().decide(other, 443, [other]).allowed


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_a_value_error_and_reads_the_same_again(text: str) -> None:
    try:
        host = read_host(text)
    except ValueError:
        return
    assert read_host(str(host)) == host


@given(st.lists(st.ip_addresses(), max_size=5), st.sampled_from(["a.test", "b.test"]))
def test_nothing_special_is_ever_among_the_addresses_to_connect_to(
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address], name: str
) -> None:
    decision = read_rules(allow=["a.test", "0.0.0.0/0", "::/0"]).decide(name, 443, addresses)
    assert all(special(address) is None for address in decision.addresses)
