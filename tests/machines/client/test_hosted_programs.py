"""Programs as users of the hosted client write them run with another import: one for each part of its public contract.

Each is written once, for asyncio; without the words `async` and `await` it is the blocking program.
"""

from __future__ import annotations

import re
import runpy
import textwrap
from pathlib import Path

import pytest

import takeback.sandboxes  # noqa: F401 (sets the default client, which would else be the user's)
from takeback.machines.client.sandbox import SandboxRecord
from tests.machines.client.conftest import World

SANDBOXES = """
    import asyncio
    from withruntime import AsyncRuntime, ConflictError, InvalidRequestError, NotFoundError, RuntimeError

    async def main():
        async with AsyncRuntime(api_key="rtcloud_none", timeout=30, max_retries=1) as runtime:
            boxes = runtime.sandboxes
            async with await boxes.create(
                name="web", labels={"team": "x", "role": "web"}, env={"MODE": "dev"}, region="eu", vcpu=2, cpu="shared",
                memory_mib=1024, disk_mib=4096, cpu_floor_millis=50, timeout_seconds=600, on_lease_end="stop",
                idle_pause_seconds=300, auto_wake=True, user="sandbox", persistent=False, max_cost_micros=1,
                max_total_cost_micros=1, funding="paid", pausable=True, network={"internet": False}, secrets=[],
                wait=True, wait_for_capacity=0, on_capacity_wait=print, idempotency_key="k1",
            ) as sbx:
                info = sbx.info
                assert (sbx.state, info["status"], info["kind"]) == ("running", "active", "sandbox")
                assert (info["vcpu"], info["memoryMiB"], info["timeoutSeconds"]) == (2, 1024, 600)
                assert info["endsAt"] == info["expiresAt"] and info["envNames"] == ["MODE"]
                assert (info["onLeaseEnd"], info["onTimeout"], info["autoWake"]) == ("stop", "stop", True)
                assert info["createdAt"] <= info["readyAt"] <= info["lastActiveAt"] and info["image"] == "debian"
                assert info["name"] == "web" and info["endedAt"] is info["pausedAt"] is info["stopReason"] is None

                try:
                    await boxes.create(name="web")
                    raise AssertionError
                except ConflictError as error:
                    assert error.code == "name_taken" and error.details["sandboxId"] == sbx.id
                    assert error.message and error.hint and error.status == 409 and not error.retryable
                same = await boxes.get_or_create("web", memory_mib=2048)
                assert same.id == sbx.id and same.info["reused"]
                page = await boxes.list(state=["running", "paused"], labels={"team": "x"}, name="web", limit=10)
                assert [one.id for one in page.data] == [sbx.id] and not page.has_more
                assert [one.id async for one in page] == [one.id for one in await page.to_list()] == [sbx.id]
                assert (await boxes.get(sbx.id)).info["name"] == "web"

                ends = info["endsAt"]
                assert (await sbx.extend(60, idempotency_key="k2")) is sbx and sbx.info["endsAt"] > ends
                await sbx.update(labels={"team": "y"}, env={"MODE": None, "TERM": "x"}, timeout_seconds=None)
                assert sbx.info["labels"] == {"team": "y"} and sbx.info["endsAt"] is None
                assert (await sbx.exec("echo $MODE-$TERM")).stdout == "-x\\n"
                stop = sbx.keep_alive(every_seconds=60, margin_seconds=600)
                stop()
                sbx.stop_keep_alive()

                await sbx.set_retention(7)
                assert (await sbx.pause(wait=True)).state == "paused" and sbx.info["pausedExpiresAt"]
                assert (await sbx.wake(timeout_seconds=3600, wait_for_capacity=0)).state == "running"
                assert (await (await sbx.wake()).wait_for("running", timeout_seconds=5)).state == "running"
                await sbx.set_retention(None)

                await sbx.exec("echo kept > file")
                assert (await sbx.stop()).state == "stopped" and sbx.info["diskKept"]
                assert (await sbx.restart()).state == "running"
                assert (await sbx.resize(vcpu=1, memory_mib=512)).info["memoryMiB"] == 512
                assert (await sbx.exec("cat file")).stdout == "kept\\n" and sbx.info["vcpu"] == 1

                other = await boxes.create(labels={"team": "y"})
                assert set((await boxes.stop_all(labels={"team": "y"}))["stopped"]) == {sbx.id, other.id}
                try:
                    await boxes.delete_all(labels={})
                    raise AssertionError
                except InvalidRequestError as error:
                    assert error.code == "invalid_request"
                gone = await boxes.delete_all(labels={"team": "y"})
                assert gone == {"deleted": [other.id, sbx.id], "failed": []}
                assert (await sbx.delete())["status"] == "deleted"
            try:
                await boxes.get(sbx.id)
                raise AssertionError
            except NotFoundError as error:
                assert isinstance(error, RuntimeError) and error.code == "not_found"
            try:
                runtime.usage()
                raise AssertionError
            except RuntimeError as error:
                assert error.code == "unsupported" and error.status == 501 and "cost" in error.hint

    asyncio.run(main())
"""

COMMANDS = """
    import asyncio
    from withruntime import AsyncRuntime, CommandError

    async def main():
        runtime = AsyncRuntime()
        async with await runtime.sandboxes.create(memory_mib=512) as sbx:
            done = await sbx.exec("echo $A; cat; echo err >&2; exit 3", env={"A": "b"}, stdin="in", cwd="/tmp")
            assert (done.exit_code, done.stdout, done.stderr, done.timed_out) == (3, "b\\nin", "err\\n", False)
            assert (done.stdout_truncated, done.stderr_truncated, done.replayed) == (False, False, False)
            assert done.process_id and done.duration_ms >= 0 and done.out_of_memory is None and done.files is None
            assert done.to_dict()["exitCode"] == 3
            assert (await sbx.exec(["id", "-un"], user="root", trace_files=True)).stdout == "root\\n"
            assert (await sbx.exec("sleep 9", timeout_ms=200)).exit_code is None
            missing = await sbx.exec("true", cwd="/none")
            assert missing.exit_code != 0 and "/none" in missing.stderr
            try:
                await sbx.exec("echo no >&2; exit 4", check=True)
                raise AssertionError
            except CommandError as error:
                assert (error.code, error.exit_code, error.stderr) == ("command_failed", 4, "no\\n")
            out, err = [], []
            await sbx.exec("echo 1; echo 2 >&2", on_stdout=out.append, on_stderr=err.append, timeout_ms=600_000)
            assert ("".join(out), "".join(err)) == ("1\\n", "2\\n")

            events = [event async for event in sbx.exec_stream("echo x", timeout_ms=5000)]
            assert [event["type"] for event in events] == ["start", "stdout", "exit"]
            assert events[0]["processId"] == events[0]["process_id"] and events[1]["offset"] == 0
            assert events[2]["exitCode"] == events[2]["exit_code"] == 0 and events[2]["state"] == "exited"

            proc = await sbx.spawn("while read x; do echo got $x; done; exit 5", output_encoding="base64", cwd="/tmp")
            assert (proc.state, proc.user, proc.exit_code, proc.sandbox_id) == ("running", "sandbox", None, sbx.id)
            await proc.write("a\\n")
            await proc.write(b"b\\n", eof=True)
            data = [event["data"] async for event in proc.output_bytes() if event["type"] == "stdout"]
            assert b"".join(data) == b"got a\\ngot b\\n"
            ended = await proc.wait()
            assert (ended.exit_code, ended.stdout, proc.exit_code) == (5, "got a\\ngot b\\n", 5)
            server = await sbx.spawn(["sleep", "1000"])
            assert server.id in [one["id"] for one in await sbx.processes()]
            again = await sbx.process(server.id)
            assert [event async for event in again.output(0, timeout_seconds=0.1)] == []
            await again.kill("SIGKILL")
            await again.wait()
            assert (await again.refresh())["state"] == "killed"

            term = await sbx.terminal(cols=100, rows=30, command="stty size; exit 2", user="root")
            text = b""
            while (piece := await term.recv()) is not None:
                text += piece
            assert b"30 100" in text and term.exit_code == 2 and term.process_id
            await term.close()

            await sbx.spawn("python3 -m http.server 8000 --bind 127.0.0.1", cwd="/etc")
            await sbx.exec("until curl -sf localhost:8000/hostname; do sleep 0.1; done")
            forward = await sbx.forward_port(8000)
            assert forward.host == "127.0.0.1" and forward.local_port > 0
            await forward.close()
            made = await sbx.previews.create(8000, visibility="private", ttl_seconds=600)
            assert made["port"] == 8000 and made["url"] and made["urlWithToken"]
            assert [one["port"] for one in await sbx.previews.list()] == [8000]
            assert (await sbx.previews.rotate(8000))["url"] == (await sbx.previews.get(8000, ttl_seconds=60))["url"]
            assert (await sbx.previews.delete(8000))["deleted"]
            used = await sbx.metrics(range="1h")
            assert used["range"] == "1h" and used["latest"] and used["points"]

    asyncio.run(main())
"""

FILES = """
    import asyncio, io, os, tarfile, tempfile
    from withruntime import AsyncRuntime, NotFoundError, RuntimeError

    async def main():
        async with await AsyncRuntime().sandboxes.create(memory_mib=512) as sbx:
            files = sbx.files
            await files.write("/workspace/app/run.sh", "#!/bin/sh\\necho hi\\n", 0o755)
            await files.write("/workspace/app/.hidden", b"x")
            assert await files.read("/workspace/app/run.sh") == b"#!/bin/sh\\necho hi\\n"
            assert (await files.read_text("/workspace/app/run.sh", "utf-8")).startswith("#!")
            assert b"".join([piece async for piece in files.read_stream("/workspace/app/run.sh")])[:2] == b"#!"
            found = await files.stat("/workspace/app/run.sh")
            assert (found["exists"], found["type"], found["mode"]) == (True, "file", "0755") and found["modifiedAt"]
            assert not await files.exists("/workspace/none") and not (await files.stat("/workspace/none"))["exists"]
            names = [one["name"] for one in await files.list("/workspace/app", hidden=False, depth=2, limit=5)]
            assert names == ["run.sh"]
            assert [one["path"] for one in await files.glob("**/*.sh", "/workspace")] == ["/workspace/app/run.sh"]
            await files.mkdir("/workspace/deep/er", True)
            await files.rename("/workspace/deep/er", "/workspace/deep/est", False)
            assert await files.remove("/workspace/deep", True) is True
            try:
                await files.read("/workspace/none")
                raise AssertionError
            except NotFoundError as error:
                assert error.code == "file_not_found"

            packed = await files.archive("/workspace/app", exclude=[".hidden"])
            names = tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz").getnames()
            assert any(name.endswith("run.sh") for name in names) and not any(".hidden" in name for name in names)
            await files.unarchive("/workspace/copy", packed, gzip=True)
            plain = await files.archive("/workspace/app", gzip=False, user="root")
            await files.unarchive("/etc/app", plain, user="root")
            assert (await sbx.exec("ls /workspace/copy; stat -c %U /etc/app/run.sh")).stdout == "run.sh\\nroot\\n"
            with tempfile.TemporaryDirectory() as here:
                await files.download("/workspace/app", os.path.join(here, "app"))
                assert sorted(os.listdir(os.path.join(here, "app"))) == [".hidden", "run.sh"]
                await files.upload(os.path.join(here, "app"), "/workspace/back")
                await files.download("/etc/shadow", os.path.join(here, "shadow"), user="root")
                await files.upload(os.path.join(here, "app", "run.sh"), "/etc/run.sh", user="root")
            assert (await sbx.exec("/workspace/back/run.sh; ls /etc/run.sh")).stdout == "hi\\n/etc/run.sh\\n"
            for call in (files.watch, files.download_url, files.upload_url):
                try:
                    call("/workspace")
                    raise AssertionError
                except RuntimeError as error:
                    assert error.code == "unsupported" and error.hint

    asyncio.run(main())
"""

COPIES = """
    import asyncio
    from withruntime import AsyncRuntime, ConflictError, NotFoundError

    async def main():
        runtime = AsyncRuntime()
        async with await runtime.sandboxes.create(memory_mib=512, labels={"a": "1"}, env={"E": "x"}) as sbx:
            await sbx.exec("echo 1 > file")
            counter = await sbx.spawn("sleep 100000")
            copy = await sbx.fork(name="copy", labels={"b": "2"}, funding="paid", idempotency_key="k")
            assert copy.id != sbx.id and copy.info["name"] == "copy" and copy.info["labels"] == {"b": "2"}
            assert (await copy.exec("echo $E; cat file")).stdout == "x\\n1\\n"
            assert (await copy.process(counter.id)).state == "running"
            await copy.delete()
            many = await sbx.fork(1, keep_snapshot=False, secrets=[])
            assert isinstance(many, list) and many[0].info["labels"] == {"a": "1"}
            await many[0].delete()

            saved = await sbx.snapshot(
                name="good", labels={"v": "1"}, retention_days=7, mode="memory", timeout_seconds=60
            )
            assert (saved["state"], saved["mode"], saved["kind"]) == ("ready", "memory", "snapshot")
            assert saved["sourceSandboxId"] == sbx.id and saved["shape"]["memoryMiB"] == 512 and saved["expiresAt"]
            disk = await runtime.snapshots.create(sbx.id, mode="disk", retention_days=1)
            page = await runtime.snapshots.list(sandbox_id=sbx.id, state="ready", limit=1)
            assert [one["id"] for one in page.data] == [disk["id"]] and page.has_more
            assert [one["id"] async for one in page] == [disk["id"], saved["id"]]
            assert (await page.next_page()).data[0]["id"] == saved["id"]
            assert (await runtime.snapshots.get(saved["id"]))["name"] == "good"
            await runtime.snapshots.update(saved["id"], name=None, labels={"v": "2"}, if_labels={"v": "1"})
            try:
                await runtime.snapshots.update(saved["id"], labels={}, if_labels={"v": "1"})
                raise AssertionError
            except ConflictError as error:
                assert error.code == "fence_conflict"
            assert (await runtime.snapshots.extend(saved["id"], 30))["retentionDays"] == 30

        async with await runtime.sandboxes.create(snapshot=saved["id"]) as back:
            assert (await back.exec("cat file; echo $E")).stdout == "1\\n\\n" and back.info["labels"] == {"v": "2"}
        async with await runtime.sandboxes.create(snapshot_id=disk["id"], memory_mib=1024, vcpu=1) as fresh:
            assert (await fresh.exec("cat file; nproc")).stdout.split()[0] == "1" and fresh.info["memoryMiB"] == 1024
        for one in (saved, disk):
            await runtime.snapshots.delete(one["id"])
        try:
            await runtime.snapshots.get(saved["id"])
            raise AssertionError
        except NotFoundError as error:
            assert error.code == "snapshot_not_found"

    asyncio.run(main())
"""

INTERPRETER = """
    import asyncio
    from withruntime import AsyncRuntime, RuntimeError

    async def main():
        async with await AsyncRuntime().sandboxes.create(memory_mib=512) as sbx:
            run = sbx.interpreter.run
            first = await run("import os\\nx = 20\\nprint('hello')\\nos.system('echo below; echo err >&2')\\nx + 1")
            assert (first["status"], first["stdout"], first["stderr"]) == ("ok", "hello\\nbelow\\n", "err\\n")
            assert first["results"] == [{"data": {"text/plain": "21"}, "main": True, "refs": []}] and not first["error"]
            seen = []
            second = await run("x = x * 2\\nprint(x, end='')\\n1/0", on_stdout=seen.append, on_error=seen.append)
            assert second["status"] == "error" and second["error"]["name"] == "ZeroDivisionError" and seen[0] == "40"
            assert "<cell 2>" in second["error"]["traceback"] and second["executionCount"] == 2
            slow = await run("y = 1\\nwhile True: pass", timeout_ms=300)
            assert slow["status"] == "timeout" and (await run("x + y"))["results"][0]["data"]["text/plain"] == "41"

            copy = await sbx.fork()
            assert (await copy.interpreter.run("x"))["results"][0]["data"]["text/plain"] == "40"
            await copy.delete()

            contexts = sbx.interpreter.contexts
            made = await contexts.create(id="other", language="python", cwd="/tmp", env={"A": "b"})
            assert made["id"] == "other" and {one["id"] for one in await contexts.list()} == {"python", "other"}
            shown = await run("import os; os.environ['A'] + os.getcwd()", context="other")
            assert shown["results"][0]["data"]["text/plain"] == "'b/tmp'"
            assert await contexts.interrupt("other") is True
            await contexts.restart("other")
            assert (await run("os", context="other"))["error"]["name"] == "NameError"
            died = await run("import os; os._exit(3)", context="other")
            assert died["error"]["name"] == "InterpreterEnded"
            assert await contexts.remove("other") is False and await contexts.remove("python") is True
            for call in (sbx.sessions.create, sbx.desktop.start, sbx.browser.start, sbx.mcp.get, sbx.mounts.list):
                try:
                    call()
                    raise AssertionError
                except RuntimeError as error:
                    assert error.code == "unsupported" and error.hint
            try:
                await run("1", language="r")
                raise AssertionError
            except RuntimeError as error:
                assert error.code == "unsupported"

    asyncio.run(main())
"""

SEED = """
    import asyncio
    from withruntime import AsyncRuntime

    async def try_in_copy(sbx, step, verify):
        rules = await sbx.network.get()
        copy = await sbx.fork(labels={"role": "copy"})
        await copy.network.off()
        for command in (step, verify):
            if (await copy.exec(command, cwd="/workspace", timeout_ms=600_000)).exit_code != 0:
                await copy.delete()
                return sbx, False
        fields = {"internet": rules["internet"], "allow": rules["allow"], "deny": rules["deny"]}
        if rules["connect"]:
            fields["connect"] = rules["connect"]
        await copy.network.set(**fields)
        await sbx.delete()
        return copy, True

    async def main():
        rules = {"internet": True, "deny": ["*.example.org"]}
        sbx = await AsyncRuntime().sandboxes.create(memory_mib=512, network=rules)
        sbx, passed = await try_in_copy(sbx, "touch bad", "test -e good")
        assert not passed
        sbx, passed = await try_in_copy(sbx, "touch good", "test -e good")
        assert passed and (await sbx.network.get())["deny"] == ["*.example.org"]
        assert (await sbx.exec("ls")).stdout == "good\\n"
        assert (await sbx.network.on())["internet"] is True
        await sbx.delete()

    asyncio.run(main())
"""

PROGRAMS = {
    "sandboxes": SANDBOXES,
    "commands": COMMANDS,
    "files": FILES,
    "copies": COPIES,
    "interpreter": INTERPRETER,
    "seed": SEED,
}


def run(program: str, folder: Path) -> None:
    """Run a program with the import changed."""
    path = folder / "program.py"
    path.write_text(program.replace("from withruntime import", "from takeback import"))
    runpy.run_path(str(path), run_name="__main__")


def blocking(program: str) -> str:
    """Return the program for the blocking face."""
    program = re.sub(r"\b(async|await) ", "", program).replace("asyncio.run(main())", "main()")
    return program.replace("AsyncRuntime", "Runtime")


@pytest.fixture
def ours(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `takeback` work on this test's data directory, as it does on the user's."""
    monkeypatch.setattr(SandboxRecord, "default_client", staticmethod(lambda: world.client))


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_hosted_client_runs_with_another_import(
    ours: None, name: str, face: str, tmp_path: Path
) -> None:
    program = textwrap.dedent(PROGRAMS[name])
    run(program if face == "asyncio" else blocking(program), tmp_path)


BLOCKING_ONLY = """
    from withruntime import Runtime, Sandbox

    with Sandbox.create(client=Runtime(), name="a", memory_mib=512) as sbx:
        assert Sandbox.connect(sbx.id).info["name"] == "a" and Sandbox.get_or_create("a").id == sbx.id
        sbx.files.write("/workspace/kept", "1")
        sbx.exec("echo lost | sudo tee /etc/lost")
        number = sbx.id
        assert sbx.switch_image("debian", keep="workspace").id == number
        assert sbx.files.read_text("/workspace/kept") == "1" and not sbx.files.exists("/etc/lost")
        assert sbx.exec("touch kept && id -un && pwd").stdout == "runtime\\n/workspace\\n"
"""


def test_the_statics_of_sandbox_and_a_switch_of_its_image(ours: None, tmp_path: Path) -> None:
    run(textwrap.dedent(BLOCKING_ONLY), tmp_path)
