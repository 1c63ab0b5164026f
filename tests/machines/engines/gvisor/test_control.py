"""The engine's control socket, against one that answers as a test wants."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.errors import EngineFailed
from takeback.machines.engines.gvisor.control import Control, Refusal

OK = {"success": True, "err": "", "result": {}}


class Server:
    """Answers each request with the next of `answers`; None closes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: list[list[bytes] | None] = []
        self.asked: list[tuple[dict[str, object], list[bytes]]] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(os.fspath(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                while self.answers:
                    data, fds, _, _ = socket.recv_fds(connection, 65536, 10)
                    if not data:
                        break
                    self.asked.append((json.loads(data), [os.pread(fd, 100, 0) for fd in fds]))
                    for fd in fds:
                        os.close(fd)
                    answer = self.answers.pop(0)
                    if answer is None:
                        break
                    for part in answer:
                        connection.sendall(part)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "s")
    yield made
    made.close()


def test_a_call_sends_its_files_and_returns_the_result(server: Server, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"content")
    server.answers = [[json.dumps({**OK, "result": [1, 2]}).encode()]]
    with open(tmp_path / "f", "rb") as file, Control(server.path) as control:
        assert control.call("x.Y", {"a": 1}, [file.fileno()], timeout=5) == [1, 2]
    assert server.asked == [({"method": "x.Y", "arg": {"a": 1}}, [b"content"])]


def test_an_answer_may_come_in_parts(server: Server) -> None:
    text = json.dumps({**OK, "result": "x" * 100_000}).encode()
    server.answers = [[text[:10], text[10:70_000], text[70_000:]]]
    with Control(server.path) as control:
        assert control.call("x.Y", None, timeout=5) == "x" * 100_000


def test_a_refusal_has_the_engines_words(server: Server) -> None:
    server.answers = [[json.dumps({"success": False, "err": "no space left", "result": None}).encode()]]
    with Control(server.path) as control, pytest.raises(Refusal, match="no space left"):
        control.save([], 5)


def test_silence_is_not_waited_for(server: Server) -> None:
    server.answers = [[b'{"success"'], [b""]]
    with Control(server.path) as control, pytest.raises(EngineFailed, match="no answer within"):
        control.pause(0.2)


@pytest.mark.parametrize("answer", [None, [b"[]"], [b'"text"']])
def test_an_end_or_nonsense_is_an_error(server: Server, answer: list[bytes] | None) -> None:
    server.answers = [answer]
    with Control(server.path) as control, pytest.raises(EngineFailed):
        control.resume(5)


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed):
        Control(tmp_path / "nothing")


def test_a_save_is_never_asked_for_without_resume(server: Server) -> None:
    server.answers = [[json.dumps(OK).encode()]]
    with Control(server.path) as control:
        control.save([], 5)
    argument = server.asked[0][0]["arg"]
    assert isinstance(argument, dict)
    assert argument["Resume"] is True
    assert argument["metadata"] == {"compression": "none"}


def test_loopback_is_made_before_a_start_and_a_restore(server: Server) -> None:
    server.answers = [[json.dumps(OK).encode()] for _ in range(4)]
    with Control(server.path) as control:
        control.boot("id", 5)
        control.load([], 5)
    assert [asked["method"] for asked, _ in server.asked] == [
        "Network.CreateLinksAndRoutes",
        "containerManager.StartRoot",
        "Network.CreateLinksAndRoutes",
        "containerManager.Restore",
    ]


def stack(task: bool, stopped: bool) -> str:
    return (
        "goroutine 1:\n"
        + ("x/kernel.(*Task).doStop(0x1)\n" if stopped else "x/read(0x1)\n")
        + ("x/kernel.(*Task).run(0x1)" if task else "x/main()")
    )


@pytest.mark.parametrize(
    ("stacks", "paused"),
    [
        ([stack(True, True), stack(False, False), stack(True, True)], True),
        ([stack(True, True), stack(True, False)], False),
        ([stack(False, False)], False),
    ],
)
def test_it_is_paused_when_every_task_stands_still(server: Server, stacks: list[str], paused: bool) -> None:
    server.answers = [[json.dumps({**OK, "result": "\n\n".join(stacks)}).encode()]]
    with Control(server.path) as control:
        assert control.is_paused(5) is paused
