"""The user's own apt tells the mirror; what is fetched is verified, and the system stays as it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from takeback.errors import FetchFailed
from takeback.host import apt, apt_sources, system
from takeback.host.apt_sources import Source
from tests.support import machines

here = pytest.mark.skipif(bool(machines.why_not()), reason=machines.why_not() or "-")


def test_sources_are_read_in_both_forms(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://no.example x main\n"
        "deb [ arch=amd64 signed-by=/keys/a.gpg,/keys/b.asc ] http://one.example/debian suite main contrib # why\n"
        "deb-src http://one.example/debian suite main\n"
        "deb cdrom:[disc]/ suite main\n"
        "deb https://two.example/flat ./\n"
    )
    (parts / "b.sources").write_text(
        "# a comment\nTypes: deb deb-src\nURIs: http://three.example/a\n http://three.example/b\nSuites: s s-updates\n"
        "# between\nComponents: main\nSigned-By: /keys/c.gpg\n\n"
        "Types: deb\nURIs: http://off.example\nSuites: s\nComponents: main\nEnabled: no\n\n"
        "Types: deb\nURIs: http://block.example\nSuites: s\nComponents: main\nSigned-By:\n"
        " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n /abc/def\n -----END PGP PUBLIC KEY BLOCK-----\n"
    )
    (parts / "c.list.bak").write_text("deb http://bak.example s main\n")
    assert apt_sources.sources(tmp_path) == (
        Source("http://one.example/debian", "suite", ("main", "contrib"), "/keys/a.gpg,/keys/b.asc"),
        Source("https://two.example/flat", "./", ()),
        Source("http://three.example/a", "s", ("main",), "/keys/c.gpg"),
        Source("http://three.example/a", "s-updates", ("main",), "/keys/c.gpg"),
        Source("http://three.example/b", "s", ("main",), "/keys/c.gpg"),
        Source("http://three.example/b", "s-updates", ("main",), "/keys/c.gpg"),
        Source("http://block.example", "s", ("main",), ""),
    )


def test_debian_is_told_from_others_who_name_their_suites_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "debian", lambda: "bookworm")
    maker = Source("https://maker.example", "bookworm", ("main",), "/keys/maker.gpg")
    mirror = Source("http://mirror.example/debian", "bookworm", ("main",), "/keys/debian.gpg")
    updates = Source("http://mirror.example/debian", "bookworm-updates", ("main",))
    found = apt_sources.debian_source("bookworm-backports", (maker, mirror, updates))
    assert found == Source("http://mirror.example/debian", "bookworm-backports", ("main",), "/keys/debian.gpg")
    browser = Source("https://browser.example/deb", "stable", ("main",), origin="Browser Ltd")
    assert apt_sources.debian_source("bookworm", (browser,)) is None
    named = Source("http://mirror.example/copy", "bookworm", ("main",), origin="Debian")
    assert apt_sources.debian_source("bookworm", (maker, updates, named)) == named


def test_no_mirror_is_known_where_no_debian_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "debian", lambda: "")
    assert apt_sources.debian_source("bookworm", (Source("http://x/debian", "bookworm"),)) is None


def test_a_source_is_written_as_apt_reads_it() -> None:
    assert Source("http://x", "s", ("main", "contrib")).line() == "deb http://x s main contrib"
    assert Source("http://x", "s", signed_by="/a,/b").line() == "deb [signed-by=/a,/b] http://x s main"


@here
def test_the_users_own_mirror_is_found() -> None:
    found = apt_sources.debian_source(system.debian())
    assert found is not None
    assert found in [
        Source(one.mirror, found.suite, ("main",), one.signed_by, one.origin) for one in apt_sources.sources()
    ]


@here
def test_options_that_would_let_unsigned_packages_pass_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "apt.conf"
    settings.write_text(
        'Acquire::AllowInsecureRepositories "true";\nAcquire::http::Proxy "http://proxy.example:3128";\n'
        'APT::Update::Post-Invoke { "touch /must-not-run"; };\n'
    )
    environment = apt.tools.environment()
    monkeypatch.setattr(apt.tools, "environment", lambda: {**environment, "APT_CONFIG": str(settings)})
    taken = apt.options()
    assert 'Acquire::http::Proxy "http://proxy.example:3128";' in taken
    assert "Allow" not in taken and "Invoke" not in taken


def system_state() -> list[tuple[str, int, int]]:
    """What apt and dpkg keep of this system, and its sources."""
    found = []
    for top in ("/var/lib/apt/lists", "/var/lib/dpkg/status", "/etc/apt", "/var/cache/apt/archives"):
        for path in [Path(top), *Path(top).rglob("*")]:
            if os.access(path.parent, os.X_OK) and path.is_file() and path.name != "lock":
                info = path.stat()
                found.append((str(path), info.st_size, info.st_mtime_ns))
    return sorted(found)


@here
def test_a_package_is_fetched_and_the_system_stays_as_it_is(tmp_path: Path) -> None:
    before = system_state()
    suite = "bookworm-backports" if system.debian() == "bookworm" else system.debian()
    source = apt_sources.debian_source(suite)
    assert source is not None
    with apt.private([source]) as private:
        private.update()
        assert private.versions("runsc")
        assert private.versions("no-such-package") == []
        private.unpack("runsc", tmp_path)
        folder = private._folder
        with pytest.raises(FetchFailed):
            private.unpack("no-such-package", tmp_path)
    assert (tmp_path / "usr/bin/runsc").stat().st_size > 1 << 20
    assert not folder.exists()
    assert system_state() == before


@here
def test_a_mirror_whose_key_is_not_the_users_is_refused(tmp_path: Path) -> None:
    suite = "bookworm-backports" if system.debian() == "bookworm" else system.debian()
    source = apt_sources.debian_source(suite)
    assert source is not None
    empty = tmp_path / "empty.gpg"
    empty.write_bytes(b"")
    os.chmod(tmp_path, 0o755)
    with pytest.raises(FetchFailed) as error, apt.private([Source(source.mirror, suite, signed_by=str(empty))]) as one:
        one.update()
    assert "sign" in str(error.value)


@pytest.mark.skipif(not (machines.TOP / ".git").exists(), reason="these are sources, no clone")
def test_no_mirror_is_written_anywhere() -> None:
    names = [".".join((word, "debian", "org")) for word in ("deb", "ftp", "security")]
    patterns = [word for name in names for word in ("-e", name)]
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(machines.TOP), "grep", "-lF", *patterns],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("", "")
