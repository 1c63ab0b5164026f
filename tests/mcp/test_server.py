"""The SDK's own client, over stdio, with the real server: every tool answers as the command of its name does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from tests.support.cli import Project, wait_for

TOOLS = {"explain", "checkpoint", "log", "diff", "undo", "redo", "restore", "run", "holds"}
PATIENCE = 120.0


@asynccontextmanager
async def connected(project: Project, *args: str, cwd: str | None = None) -> AsyncIterator[Client]:
    """A client of `takeback mcp ARGS...`, started in the project."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "takeback", "mcp", *args],
        env=project.home.env(),
        cwd=cwd or project.root,
    )
    with open(os.devnull, "w") as log, anyio.fail_after(PATIENCE):
        async with Client(stdio_client(server, errlog=log)) as client:
            yield client


def run(test: Callable[[], Awaitable[None]]) -> None:
    anyio.run(test)


def answer(result: CallToolResult) -> dict[str, Any]:
    """Return the document of a call that went well; the text holds the same."""
    assert not result.is_error, result
    assert isinstance(result.structured_content, dict)
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


def test_one_session_uses_every_tool(repo: Project, tmp_path: Path) -> None:
    async def session() -> None:
        before = repo.tree()
        async with connected(repo) as client:

            async def call(name: str, **arguments: Any) -> dict[str, Any]:
                return answer(await client.call_tool(name, arguments))

            offered = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(offered) == TOOLS
            assert {name for name, tool in offered.items() if tool.annotations and tool.annotations.read_only_hint} == {
                "explain", "log", "diff", "holds",
            }  # fmt: skip

            said = await call("explain", command="git push --force")
            assert said == repo.tb("explain", "git push --force", check=False).json
            write = {"tool_name": "Write", "tool_input": {"file_path": ".env", "content": ""}}
            assert (await call("explain", tool_call=write))["class"] == "state"

            first = await call("checkpoint", message="before", session="agent")
            assert set(first) == set(repo.tb("checkpoint").json)
            assert first["new"]

            # A step has no input, cannot reach the protocol, and its last output is in the answer.
            wreck = "cat; rm -rf src; echo gone; echo '{\"jsonrpc\"' >&2; exit 3"
            ran = await call("run", command=wreck, session="agent", rollback=False)
            assert (ran["exit"], ran["changed"] > 0, ran["rolled_back"]) == (3, True, "")
            assert ran["output"].splitlines() == ["gone", '{"jsonrpc"']
            assert set(ran) - {"output"} == set(repo.tb("run", "true").json)
            failed = await call("run", command="rm README.md", verify=["test -e README.md"])
            assert failed["rolled_back"] and failed["exit"] == 1 and repo.exists("README.md")
            held = await client.call_tool("run", {"command": "git push nowhere"})
            assert held.is_error and held.structured_content["error"]["kind"] == "step-held"
            waiting = await call("holds")
            assert [(one["command"], one["class"], one["state"]) for one in waiting["holds"]] == [
                ("git push nowhere", "outside", "waiting")
            ]
            assert waiting == await call("holds", all=True) == repo.tb("holds").json

            events = await call("log", limit=3)
            assert events == repo.tb("log", "-n", "3").json
            assert [
                event["id"] for event in (await call("log", session="agent"))["events"] if event["kind"] == "step"
            ] == [ran["id"]]

            changed = await call("diff", a=first["id"], paths=["src/app.py"], text=True)
            assert [(change["path"], change["kind"]) for change in changed["changes"]] == [("src/app.py", "deleted")]
            assert "-line_0 = 0\n" in changed.pop("text")
            assert changed == repo.tb("diff", first["id"], "src/app.py").json

            tried = await call("undo", step=ran["id"], dry_run=True)
            assert tried["dry_run"] and not repo.exists("src")
            undone = await call("undo", session="agent")
            assert undone["targets"] == [ran["id"]]
            assert repo.tree() == before
            await call("redo")
            assert not repo.exists("src")
            assert set(undone) == set(await call("restore", id=first["id"]))
            assert repo.tree() == before
            await call("restore", id=ran["id"], to=str(tmp_path / "aside"))
            assert (tmp_path / "aside" / "README.md").exists() and not (tmp_path / "aside" / "src").exists()

            # An error is one of MCP: in words for the model, and as the document the command line prints.
            failed = await client.call_tool("undo", {"step": "s99"})
            assert failed.is_error
            assert failed.structured_content == repo.tb("undo", "s99", check=False).json
            error = failed.structured_content["error"]
            assert failed.content[0].text == f"{error['message']}\nHint: {error['hint']}"  # type: ignore[union-attr]
            for name, arguments in (("explain", {}), ("log", {"limit": 0}), ("approve", {"id": "h1"})):
                assert await refused(client, name, arguments) != ""

            # A call that is given up takes its step with it.
            async with anyio.create_task_group() as calls:
                calls.start_soon(client.call_tool, "run", {"command": "echo $$ > pid; sleep 300", "session": "long"})
                while not repo.exists("pid") or not repo.read("pid"):
                    await anyio.sleep(0.01)
                calls.cancel_scope.cancel()
            while not any("exit" in event["data"] for event in (await call("log", session="long"))["events"]):
                await anyio.sleep(0.01)
            with pytest.raises(ProcessLookupError):
                os.kill(int(repo.read("pid")), 0)

    run(session)


async def refused(client: Client, name: str, arguments: dict[str, Any]) -> str:
    """Return what is said about a call that cannot be meant."""
    from mcp import MCPError

    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return str(error)
    assert result.is_error, result
    return result.content[0].text  # type: ignore[union-attr]


@pytest.mark.long
def test_a_server_for_one_project_serves_that_from_anywhere(repo: Project, tmp_path: Path) -> None:
    async def session() -> None:
        async with connected(repo, "--project", repo.root, cwd=str(tmp_path)) as client:
            ran = answer(await client.call_tool("run", {"command": "pwd -P"}))
            assert ran["output"].strip() == os.path.realpath(repo.root)

    run(session)


@pytest.mark.long
def test_a_step_ends_and_is_recorded_when_the_client_goes(repo: Project) -> None:
    async def session() -> None:
        with pytest.raises(BaseExceptionGroup):
            async with anyio.create_task_group() as calls, connected(repo) as client:
                calls.start_soon(client.call_tool, "run", {"command": "echo $$ > pid; sleep 300"})
                while not repo.exists("pid") or not repo.read("pid"):
                    await anyio.sleep(0.01)
                raise InterruptedError

    run(session)
    wait_for(lambda: any(event["data"].get("exit") for event in repo.tb("log")["events"]))
    with pytest.raises(ProcessLookupError):
        os.kill(int(repo.read("pid")), 0)


def test_without_the_extra_it_says_how_to_get_it(repo: Project, tmp_path: Path) -> None:
    (tmp_path / "old" / "mcp").mkdir(parents=True)
    (tmp_path / "old" / "mcp" / "__init__.py").touch()  # a package of that name, without what version 2 has
    told = repo.tb("mcp", env={"PYTHONPATH": str(tmp_path / "old")}, check=False)
    assert (told.code, told.error) == (1, "extra-missing")
    assert "pip install 'takeback[mcp]'" in told.text


def test_a_project_that_is_not_there_is_named(repo: Project) -> None:
    told = repo.tb("mcp", "--project", "/not/there", check=False)
    assert (told.code, told.error) == (2, "no-project")
    assert "/not/there" in told.text
