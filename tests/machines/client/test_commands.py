"""exec and exec_stream on a real machine, the same for both faces."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from takeback.errors import CommandError, CommandTimeout, InvalidRequest, SandboxNotFound
from tests.machines.client.faces import Face


async def sleeping(box: Any) -> int:
    """Return how many processes in it are called `sleep`; the image has no ps."""
    return int((await box.exec("cat /proc/[0-9]*/comm | grep -cx sleep")).stdout)


async def test_a_command_gives_its_exit_code_and_both_streams(face: Face) -> None:
    async with await face.create() as box:
        result = await box.exec("echo out; echo err >&2; exit 3")
        assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
        assert not result.timed_out and not result.stdout_truncated and not result.stderr_truncated
        assert result.process_id and result.duration_ms >= 0
        assert result.to_dict()["exitCode"] == 3


async def test_it_runs_as_the_images_user_in_its_home_with_the_environment_given(face: Face) -> None:
    async with await face.create(env={"COLOUR": "green", "BOTH": "box"}) as box:
        result = await box.exec("id -un; pwd; echo $HOME $COLOUR $BOTH; echo $PATH", env={"BOTH": "exec"})
        user, folder, variables, path = result.stdout.splitlines()
        assert (user, folder, variables) == ("runtime", "/workspace", "/workspace green exec")
        assert path.startswith("/workspace/.local/bin:")
        root = await box.exec("id -un; echo $HOME; pwd", user="root")
        assert root.stdout.split() == ["root", "/root", "/workspace"]
        assert (await box.exec("id -un", user="runtime")).stdout == "runtime\n"


async def test_a_list_of_words_runs_without_a_shell(face: Face) -> None:
    async with await face.create() as box:
        assert (await box.exec(["printf", "%s|", "$HOME", "a b", ""])).stdout == "$HOME|a b||"


async def test_input_is_given_and_ends(face: Face) -> None:
    async with await face.create() as box:
        assert (await box.exec("cat; echo end", stdin="text\n")).stdout == "text\nend\n"
        assert (await box.exec("wc -c", stdin=bytes(3_000_000))).stdout.strip() == "3000000"
        assert (await box.exec("cat", stdin="")).stdout == ""
        # More in each direction than any pipe holds, and then what nobody reads.
        assert len((await box.exec("cat", stdin=b"x" * 900_000, timeout_ms=90_000)).stdout) == 900_000
        assert (await box.exec("true", stdin=bytes(3_000_000))).exit_code == 0


async def test_a_missing_folder_or_program_is_a_failed_command_that_says_so(face: Face) -> None:
    async with await face.create() as box:
        missing = await box.exec("true", cwd="/not/there")
        assert missing.exit_code not in (0, None) and "/not/there" in missing.stderr
        assert "No such file or directory" in missing.stderr
        nothing = await box.exec(["no-such-program"])
        assert nothing.exit_code == 127 and "no-such-program" in nothing.stderr
        assert (await box.exec(["/etc/passwd"])).exit_code == 126


async def test_a_command_out_of_time_is_ended_and_has_no_exit_code(face: Face) -> None:
    async with await face.create() as box:
        result = await box.exec("echo begun; sleep 60", timeout_ms=300)
        assert result.timed_out and result.exit_code is None and result.stdout == "begun\n"
        with pytest.raises(CommandTimeout) as caught:
            await box.exec("sleep 60", timeout_ms=300, check=True)
        assert caught.value.code == "command_timeout"


async def test_check_raises_what_the_command_said(face: Face) -> None:
    async with await face.create() as box:
        with pytest.raises(CommandError) as caught:
            await box.exec("echo why >&2; exit 7", check=True)
        error: Any = caught.value
        assert (error.code, error.exit_code, error.stderr) == ("command_failed", 7, "why\n")
        assert (await box.exec("true", check=True)).exit_code == 0


async def test_a_stream_has_events_in_order_with_both_spellings(face: Face) -> None:
    async with await face.create() as box:
        events = [event async for event in box.exec_stream("echo one; sleep 0.2; echo two >&2; exit 4")]
        assert [event["type"] for event in events] == ["start", "stdout", "stderr", "exit"]
        assert events[0]["processId"] == events[0]["process_id"]
        assert [(event["data"], event["offset"]) for event in events[1:3]] == [("one\n", 0), ("two\n", 4)]
        assert events[3]["exitCode"] == events[3]["exit_code"] == 4
        assert events[3]["state"] == "exited" and events[3]["timedOut"] is False


async def test_callbacks_get_text_as_it_comes(face: Face) -> None:
    async with await face.create() as box:
        out: list[str] = []
        err: list[str] = []
        result = await box.exec("echo a; echo b >&2", on_stdout=out.append, on_stderr=err.append)
        assert ("".join(out), "".join(err)) == ("a\n", "b\n")
        assert (result.stdout, result.stderr, result.exit_code) == ("a\n", "b\n", 0)


async def test_a_character_is_never_cut_and_what_is_none_comes_as_base64_too(face: Face) -> None:
    async with await face.create() as box:
        script = r"printf '\xe2\x82'; sleep 0.2; printf '\xac\n'; sleep 0.2; printf '\xff\xfe'"
        events = [event async for event in box.exec_stream(script) if event["type"] == "stdout"]
        assert [event["data"] for event in events] == ["€\n", "\ufffd\ufffd"]
        assert base64.b64decode(events[1]["base64"]) == b"\xff\xfe"
        assert (await box.exec(r"printf '\xff'")).stdout == "\ufffd"
        # 64 KiB ends within a character of three bytes.
        cut = await box.exec("head -c 300000 /dev/zero | tr '\\0' x | sed 's/x/€/g'")
        assert cut.stdout_truncated and set(cut.stdout) == {"€"} and len(cut.stdout.encode()) == 65_535


async def test_a_result_is_cut_where_the_contract_says(face: Face) -> None:
    async with await face.create() as box:
        short = await box.exec("head -c 200000 /dev/zero | tr '\\0' o; head -c 10 /dev/zero | tr '\\0' e >&2")
        assert len(short.stdout) == 65_536 and short.stdout_truncated
        assert short.stderr == "e" * 10 and not short.stderr_truncated
        long = await box.exec("head -c 2000000 /dev/zero | tr '\\0' o", timeout_ms=60_001)
        assert len(long.stdout) == 1 << 20 and long.stdout_truncated


async def test_what_a_command_leaves_behind_ends_with_it(face: Face) -> None:
    async with await face.create() as box:
        await box.exec("sleep 1000 & sleep 1000 & echo left")
        assert await sleeping(box) == 0
        await box.exec("setsid sleep 1000 > /dev/null 2>&1 < /dev/null & sleep 0.2")
        assert await sleeping(box) == 1


async def test_bad_requests_say_what_is_wrong(face: Face) -> None:
    async with await face.create() as box:
        for wrong in ({"user": "nobody"}, {"timeout_ms": -1}, {"timeout_ms": 10**9}, {"env": {"A=B": "x"}}):
            with pytest.raises(InvalidRequest) as caught:
                await box.exec("true", **wrong)
            assert caught.value.code == "invalid_request" and caught.value.hint_text
        with pytest.raises(InvalidRequest):
            await box.exec([])
        with pytest.raises(TypeError):
            await box.exec("true", timeout=3)
    with pytest.raises(SandboxNotFound):
        await box.exec("true")


async def test_a_cancelled_task_ends_its_command(one: Face) -> None:
    async with await one.create() as box:
        seen = asyncio.Event()
        task = asyncio.create_task(box.exec("echo up; sleep 1000", on_stdout=lambda _: seen.set()))
        await asyncio.wait_for(seen.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(100):
            if await sleeping(box) == 0:
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("the command still runs")


async def test_leaving_a_stream_early_leaves_the_command_running(face: Face) -> None:
    async with await face.create() as box:
        stream = box.exec_stream("echo one; sleep 1000")
        async for event in stream:
            if event["type"] == "stdout":
                break
        await stream.aclose()
        assert await sleeping(box) == 1
