"""spawn, follow, write, kill and terminals on a real machine, the same for both faces."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from takeback.errors import FileNotFound, InvalidRequest, ProcessNotFound, TerminalRefused
from tests.machines.client.faces import Face


async def test_a_process_outlives_the_call_that_started_it(face: Face) -> None:
    async with await face.create() as box:
        process = await box.spawn("echo up; sleep 0.5; echo down; exit 5")
        assert process.state == "running" and process.exit_code is None and process.user == "sandbox"
        assert process.command == "echo up; sleep 0.5; echo down; exit 5"
        result = await process.wait()
        assert (result.exit_code, result.stdout) == (5, "up\ndown\n")
        assert (process.state, process.exit_code) == ("exited", 5)
        again = await box.process(process.id)
        assert (again.state, again.exit_code, again.info["outputBytes"]) == ("exited", 5, 8)


async def test_its_output_can_be_followed_from_any_offset_by_any_number(face: Face) -> None:
    async with await face.create() as box:
        process = await box.spawn("echo one; sleep 0.3; echo two >&2")
        for cursor, expected in ((0, ["one\n", "two\n"]), (4, ["two\n"]), (0, ["one\n", "two\n"])):
            events = [event async for event in process.output(cursor)]
            assert [event["data"] for event in events[:-1]] == expected
            assert events[-1]["type"] == "exit" and events[-1]["exitCode"] == 0
        pieces = [event["data"] async for event in process.output_bytes() if event["type"] in ("stdout", "stderr")]
        assert pieces == [b"one\n", b"two\n"]


async def test_following_can_be_limited_in_time(face: Face) -> None:
    async with await face.create() as box:
        process = await box.spawn("echo one; sleep 1000")
        events = [event async for event in process.output(timeout_seconds=0.5)]
        assert [event["type"] for event in events] == ["stdout"]
        await process.kill("SIGKILL")
        assert (await process.wait()).exit_code == 137
        assert process.state == "killed"


async def test_input_can_be_written_and_ended(face: Face) -> None:
    async with await face.create() as box:
        process = await box.spawn("while read line; do echo got $line; done; echo end")
        await process.write("one\n")
        await process.write(b"two\n")
        await process.write("", eof=True)
        assert (await process.wait()).stdout == "got one\ngot two\nend\n"
        with pytest.raises(InvalidRequest):
            await process.write("more")
        given = await box.spawn("cat; echo end", stdin="given")
        assert (await given.wait()).stdout == "givenend\n"
        none = await box.spawn("cat; echo end", stdin=False)
        assert (await none.wait()).stdout == "end\n"


async def test_much_input_waits_for_its_reader(face: Face) -> None:
    async with await face.create() as box:
        process = await box.spawn("sleep 0.3; wc -c")
        await process.write(bytes(2_000_000), eof=True)
        assert (await process.wait()).stdout.strip() == "2000000"


async def test_processes_are_listed_with_the_last_sixteen_that_ended(face: Face) -> None:
    async with await face.create() as box:
        running = await box.spawn("sleep 1000", cwd="/tmp", user="root")
        for number in range(18):
            await box.exec(f"exit {number}")
        await box.files.exists("/workspace")
        records = await box.processes()
        assert [record["exitCode"] for record in records] == [None, *range(2, 18)]
        assert records[0]["id"] == running.id and records[0]["user"] == "root" and records[0]["cwd"] == "/tmp"
        assert records[0]["command"] == "sleep 1000" and records[0]["startedAt"].endswith("Z")


async def test_unknown_processes_and_what_cannot_start_are_errors(face: Face) -> None:
    async with await face.create() as box:
        for unknown in ("p00000fff", "nonsense", ""):
            with pytest.raises(ProcessNotFound):
                await box.process(unknown)
        process = await box.spawn("true")
        await process.wait()
        process.info["id"] = "p00000fff"
        with pytest.raises(ProcessNotFound):
            await process.kill()
        with pytest.raises(ProcessNotFound):
            [event async for event in process.output()]
        with pytest.raises(FileNotFound):
            await box.spawn("true", cwd="/not/there")
        with pytest.raises(FileNotFound):
            await box.spawn(["no-such-program"])
        with pytest.raises(InvalidRequest):
            await (await box.spawn("sleep 1000")).kill("SIGWHAT")


async def test_a_terminal_is_one_for_the_program_and_knows_its_size(face: Face) -> None:
    async with await face.create() as box:
        terminal = await box.terminal(cols=100, rows=30, command="tty; stty size; read line; stty size; exit 6")
        assert b"/dev/pts" in await until(terminal, b"30 100")
        await terminal.resize(120, 40)
        await terminal.write("\n")
        assert b"40 120" in await until(terminal, b"40 120")
        while await terminal.recv() is not None:
            pass
        assert terminal.exit_code == 6


async def test_a_terminal_begins_with_a_login_shell_and_can_be_attached_to_again(face: Face) -> None:
    async with await face.create() as box:
        terminal = await box.terminal()
        await terminal.write("cd /tmp; echo here $((40 + 2))\n")
        await until(terminal, b"here 42")
        await terminal.close()
        again = await box.terminal(process_id=terminal.process_id)
        await again.write("pwd; exit\n")
        assert b"/tmp" in await until(again, None)
        assert again.exit_code == 0
        with pytest.raises(TerminalRefused):
            await box.terminal(command=["no-such-program"])


async def test_output_may_be_asked_for_as_base64(face: Face) -> None:
    async with await face.create() as box:
        process = await box.spawn(r"printf '\x00\xff\xe2\x82'", output_encoding="base64")
        events = [event async for event in process.output() if event["type"] == "stdout"]
        assert b"".join(base64.b64decode(event["base64"]) for event in events) == b"\x00\xff\xe2\x82"


async def test_only_the_last_megabyte_is_kept_when_nobody_follows(face: Face) -> None:
    async with await face.create() as box:
        process = await box.spawn("head -c 3000000 /dev/zero | tr '\\0' a; echo; echo last")
        for _ in range(200):
            if (await process.refresh())["state"] != "running":
                break
            await asyncio.sleep(0.05)
        events = [event async for event in process.output()]
        assert events[0]["type"] == "truncated" and events[0]["droppedBytes"] == events[0]["resumeAt"] > 1_000_000
        text = "".join(event["data"] for event in events if event["type"] == "stdout")
        assert text.endswith("a\nlast\n") and 900_000 < len(text) <= 1 << 20
        assert (await process.wait()).stdout_truncated


async def until(terminal: Any, word: bytes | None) -> bytes:
    """Return what a terminal shows up to a word, or up to its end."""
    shown = b""
    while word is None or word not in shown:
        data = await terminal.recv()
        if data is None:
            assert word is None, shown
            return shown
        shown += data
    return shown
