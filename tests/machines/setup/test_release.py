"""The makers' releases, from a server on this machine: their checksum decides."""

from __future__ import annotations

import functools
import hashlib
import http.server
import platform
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.errors import FetchFailed
from takeback.host import tools
from takeback.machines.engines import install, release
from takeback.machines.making import silent

pytestmark = pytest.mark.skipif(not (tools.have("curl") or tools.have("wget")), reason="neither curl nor wget is here")
PROGRAM = b"#!/bin/sh\necho 'runsc version release-20240729.0'\n"


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the URL that a server gives it at."""
    folder = tmp_path / "served"
    (folder / "20240729" / platform.machine()).mkdir(parents=True)
    handler = functools.partial(Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder / "20240729" / platform.machine(), f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def publish(folder: Path, digest: str) -> None:
    (folder / "runsc").write_bytes(PROGRAM)
    (folder / "runsc.sha512").write_text(f"{digest}  runsc\n")


def test_a_release_with_the_right_checksum_is_taken(served: tuple[Path, str], work: Path) -> None:
    folder, url = served
    publish(folder, hashlib.sha512(PROGRAM).hexdigest())
    fetched = release.fetch(work, silent, base=url)
    assert fetched.program.read_bytes() == PROGRAM
    assert fetched.source == f"{url}/20240729/{platform.machine()}/runsc"


def test_a_release_whose_checksum_is_wrong_is_refused_and_not_kept(served: tuple[Path, str], work: Path) -> None:
    folder, url = served
    publish(folder, hashlib.sha512(PROGRAM + b"?").hexdigest())
    with pytest.raises(FetchFailed, match="its SHA-512 is"):
        release.fetch(work, silent, base=url)
    assert not (work / "runsc").exists()


@pytest.mark.parametrize("checksum", ["", "<html>no such page</html>"])
def test_a_checksum_that_is_none_is_refused(served: tuple[Path, str], work: Path, checksum: str) -> None:
    folder, url = served
    publish(folder, checksum)
    with pytest.raises(FetchFailed):
        release.fetch(work, silent, base=url)


def test_a_release_that_is_not_there_is_said_with_its_address(served: tuple[Path, str], work: Path) -> None:
    with pytest.raises(FetchFailed) as error:
        release.fetch(work, silent, base=served[1])
    assert "runsc.sha512" in str(error.value) and "404" in str(error.value)
    assert list(work.iterdir()) == []


def test_a_download_that_was_changed_on_its_way_leaves_no_engine(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = served
    publish(folder, hashlib.sha512(PROGRAM).hexdigest())
    (folder / "runsc").write_bytes(PROGRAM[:-3])
    engines = tmp_path / "engine"
    engines.mkdir()
    with pytest.raises(FetchFailed, match="its SHA-512 is"):
        install.ensure(engines, "", ways=[functools.partial(release.fetch, base=url)])
    assert [one.name for one in engines.iterdir()] == [".lock"]
    (folder / "runsc").write_bytes(PROGRAM)
    assert install.ensure(engines, "", ways=[functools.partial(release.fetch, base=url)]).own


def test_the_place_of_the_releases_is_reached_only_over_tls() -> None:
    assert release.BASE.startswith("https://")
