"""Unix sockets: any depth of folders, one's own user, no other family."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback.host import unix


def test_a_name_longer_than_an_address_works(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    for _ in range(2):  # the second takes the place that the first left
        with unix.listen(folder / "socket") as server, unix.connect(folder / "socket") as client:
            accepted, _ = server.accept()
            with accepted:
                assert unix.peer_uid(accepted) == os.getuid()
                client.sendall(b"x")
                assert accepted.recv(1) == b"x"
    assert (folder / "socket").stat().st_mode & 0o777 == 0o600


def test_nobody_there_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        unix.connect(tmp_path / "socket")
    unix.listen(tmp_path / "socket").close()
    with pytest.raises(ConnectionRefusedError):
        unix.connect(tmp_path / "socket")


def test_what_does_not_fit_is_sent_later(tmp_path: Path) -> None:
    with unix.listen(tmp_path / "socket") as server, unix.connect(tmp_path / "socket") as client:
        accepted, _ = server.accept()
        with accepted:
            data = memoryview(bytes(1 << 20))
            sent = 0
            while some := unix.send_some(client, data[sent:]):
                sent += some
            assert 0 < sent < len(data)
