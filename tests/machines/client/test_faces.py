"""Both faces have the same methods, they are those of the hosted client's contract, and the reference names each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from takeback.machines.client import aio, aio_inside, aio_network, files, interpreter, network, processes, runtime
from takeback.machines.client.chain import AsyncChain, Chain
from takeback.machines.client.operations import CreateFields
from takeback.machines.client.pages import AsyncPage, Page
from takeback.machines.client.results import CommandResult
from takeback.machines.client.sandbox import Sandbox
from takeback.machines.client.snapshots import AsyncSnapshots, Snapshots

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "sandboxes.md"
PAIRS: tuple[tuple[type, type], ...] = (
    (Sandbox, aio.AsyncSandbox),
    (files.Files, aio_inside.AsyncFiles),
    (processes.Process, aio_inside.AsyncProcess),
    (processes.Terminal, aio_inside.AsyncTerminal),
    (network.Network, aio_network.AsyncNetwork),
    (network.Previews, aio_network.AsyncPreviews),
    (network.PortForward, aio_network.AsyncPortForward),
    (interpreter.Interpreter, interpreter.AsyncInterpreter),
    (interpreter.InterpreterContexts, interpreter.AsyncInterpreterContexts),
    (Snapshots, AsyncSnapshots),
    (Chain, AsyncChain),
    (runtime.Runtime, runtime.AsyncRuntime),
    (runtime.Sandboxes, runtime.AsyncSandboxes),
    (Page, AsyncPage),
)

# Sections 7 to 9, 11, 12, 14 and 16 of the public client's contract: names, order, kinds and defaults.
HOSTED = """
Sandbox.connect(sandbox_id, *, client=None)
Sandbox.create(*, client=None, **fields)
Sandbox.get_or_create(name, *, client=None, **fields)
Sandbox.from_session(token, sandbox_id, api_url=None, *, timeout=300)
Sandbox.identity_token(audience, *, lifetime_seconds=None, timeout=10.0)
Sandbox.refresh()
Sandbox.wait_for(state, timeout_seconds=60)
Sandbox.stop(wait=True, idempotency_key=None)
Sandbox.pause(wait=True, idempotency_key=None)
Sandbox.restart(wait=True, idempotency_key=None, *, wait_for_capacity=None, on_capacity_wait=None)
Sandbox.wake(wait=True, timeout_seconds=None, idempotency_key=None, *, wait_for_capacity=None, on_capacity_wait=None)
Sandbox.extend(seconds, idempotency_key=None)
Sandbox.update(idempotency_key=None, **settings)
Sandbox.set_retention(days, idempotency_key=None)
Sandbox.switch_image(image, *, keep='workspace', idempotency_key=None)
Sandbox.resize(*, restart=True, vcpu=None, memory_mib=None, disk_mib=None, idempotency_key=None)
Sandbox.delete(idempotency_key=None)
Sandbox.keep_alive(every_seconds=60, margin_seconds=600)
Sandbox.stop_keep_alive()
Sandbox.snapshot(*, name=None, labels=None, retention_days=None, mode=None, idempotency_key=None, timeout_seconds=None)
Sandbox.fork(count=None, *, name=None, labels=None, keep_snapshot=None, funding=None, secrets=None,
  idempotency_key=None)
Sandbox.exec(command, *, cwd=None, user=None, env=None, stdin=None, timeout_ms=None, on_stdout=None, on_stderr=None,
  check=False, idempotency_key=None, trace_files=False)
Sandbox.exec_stream(command, *, cwd=None, user=None, env=None, stdin=None, timeout_ms=None, idempotency_key=None,
  trace_files=False)
Sandbox.spawn(command, *, cwd=None, user=None, env=None, stdin=None, pty=None, timeout_ms=None, output_encoding=None,
  trace_files=False)
Sandbox.processes()
Sandbox.process(process_id)
Sandbox.terminal(*, cols=80, rows=24, command=None, cwd=None, user=None, process_id=None)
Sandbox.forward_port(port, *, local_port=None, host='127.0.0.1')
Sandbox.metrics(range='1h')
Process.output(cursor=0, *, timeout_seconds=None)
Process.output_bytes(cursor=0, *, timeout_seconds=None)
Process.wait()
Process.write(data, eof=False)
Process.kill(signal='SIGTERM')
Process.resize(cols, rows)
Process.refresh()
Process.files()
Terminal.write(data)
Terminal.resize(cols, rows)
Terminal.recv()
Terminal.close()
PortForward.close()
Files.archive(path, *, gzip=True, user='sandbox', exclude=None)
Files.download(remote_path, local_path, *, user='sandbox')
Files.download_url(path, *, expires_in_seconds=None, filename=None, wake=None, archive=None)
Files.exists(path)
Files.glob(pattern, root='/workspace')
Files.list(path='/workspace', *, depth=None, glob=None, hidden=None, limit=None)
Files.mkdir(path, parents=True)
Files.read(path)
Files.read_stream(path)
Files.read_text(path, encoding='utf-8')
Files.remove(path, recursive=False)
Files.rename(source, target, overwrite=False)
Files.revoke_links()
Files.stat(path)
Files.unarchive(path, data, *, gzip=None, user='sandbox', idempotency_key=None)
Files.upload(local_path, remote_path, *, user='sandbox')
Files.upload_url(path, *, expires_in_seconds=None, max_bytes=None, wake=None)
Files.watch(path, **options)
Files.write(path, data, mode=None)
Network.get()
Network.set(*, internet, allow=None, deny=None, connect=None)
Network.off()
Network.on()
Previews.create(port, *, visibility=None, ttl_seconds=None, expires_at=None, embed_origins=None, idempotency_key=None)
Previews.delete(port)
Previews.get(port, *, ttl_seconds=None, expires_at=None)
Previews.list()
Previews.rotate(port)
Interpreter.run(code, *, language=None, context=None, timeout_ms=None, on_stdout=None, on_stderr=None, on_result=None,
  on_error=None, idempotency_key=None, interrupt_on_disconnect=None)
Interpreter.result(ref)
InterpreterContexts.create(*, id=None, language=None, cwd=None, env=None, idempotency_key=None)
InterpreterContexts.interrupt(context_id)
InterpreterContexts.list()
InterpreterContexts.remove(context_id)
InterpreterContexts.restart(context_id)
Sandboxes.create(**fields)
Sandboxes.delete(sandbox_id, idempotency_key=None)
Sandboxes.delete_all(*, labels)
Sandboxes.get(sandbox_id)
Sandboxes.get_or_create(name, **fields)
Sandboxes.list(*, state=None, include_stopped=False, labels=None, name=None, limit=None)
Sandboxes.stop_all(*, labels)
Snapshots.create(sandbox_id, **fields)
Snapshots.delete(snapshot_id)
Snapshots.extend(snapshot_id, retention_days)
Snapshots.get(snapshot_id)
Snapshots.list(*, sandbox_id=None, name=None, state=None, limit=None)
Snapshots.update(snapshot_id, *, idempotency_key=None, **fields)
Page.next_page()
Page.to_list(limit=10000)
Runtime.close()
Runtime.me()
Runtime.request(method, path, **kwargs)
Runtime.usage()
Runtime.usage_export(since, until, *, cursor=None, limit=None)
Runtime.usage_requests(range='24h')
"""
PROPERTIES = """
Sandbox: id state info files sessions interpreter previews network desktop browser mounts tailscale mcp
Process: id command user state exit_code out_of_memory
Terminal: process_id
Files: watches
Interpreter: contexts
Page: data next_cursor has_more
Runtime: sandboxes snapshots volumes images jobs secrets limits events webhooks otel audit
"""
FIELDS = """
name labels env region vcpu memory_mib disk_mib cpu cpu_floor_millis timeout_seconds on_lease_end idle_pause_seconds
auto_wake user persistent max_total_cost_micros max_cost_micros get_or_create network image snapshot snapshot_id
spread_from volumes tailscale secrets funding pausable keep wait wait_for_capacity on_capacity_wait idempotency_key
"""
RESULT = """
exit_code stdout stderr timed_out stdout_truncated stderr_truncated duration_ms process_id replayed out_of_memory files
"""


def members(cls: type) -> dict[str, Any]:
    """Return what is public of a class and its parents of ours; `default_client` is for takeback.sandboxes to set."""
    ours = [one for one in reversed(cls.__mro__) if one.__module__.startswith("takeback.")]
    found = {name: value for one in ours for name, value in vars(one).items() if not name.startswith("_")}
    found.pop("default_client", None)
    return found


def parameters(function: Any) -> list[inspect.Parameter]:
    plain = function.__func__ if isinstance(function, classmethod | staticmethod) else function
    found = [one.replace(annotation=one.empty) for one in inspect.signature(plain).parameters.values()]
    return [one for one in found if one.name not in ("self", "cls")]


def contract() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Give each class, method, and a function with its parameters."""
    for line in re.sub(r"\n  ", " ", HOSTED.strip()).splitlines():
        cls, name, text = re.fullmatch(r"(\w+)\.(\w+)\((.*)\)", line).groups()  # type: ignore[union-attr]
        names: dict[str, Any] = {}
        exec(f"def function({text}): ...", names)
        yield cls, name, names["function"]


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS, ids=lambda cls: cls.__name__)
def test_both_faces_have_the_same_methods_with_the_same_arguments(blocking: type, awaited: type) -> None:
    ours, theirs = members(blocking), members(awaited)
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        assert isinstance(value, property) == isinstance(theirs[name], property), name
        if callable(value) or isinstance(value, classmethod | staticmethod):
            assert parameters(value) == parameters(theirs[name]), name


@pytest.mark.parametrize(("cls", "name", "theirs"), [pytest.param(*one, id=f"{one[0]}.{one[1]}") for one in contract()])
def test_a_method_takes_what_the_hosted_client_takes(cls: str, name: str, theirs: Callable[..., Any]) -> None:
    function = members(next(one for one, _ in PAIRS if one.__name__ == cls))[name]
    ours = {one.name: one for one in parameters(function)}
    many = {one.kind for one in ours.values()}
    for one in parameters(theirs):
        if one.kind is one.VAR_KEYWORD:
            assert one.kind in many
            continue
        assert (ours[one.name].default, ours[one.name].kind) == (one.default, one.kind), one.name
    positional = [one.name for one in parameters(theirs) if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert [one.name for one in ours.values() if one.kind is one.POSITIONAL_OR_KEYWORD] == positional
    required = {one.name for one in parameters(theirs) if one.default is one.empty}
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    extra = [one for one in ours.values() if one.name not in required and one.kind not in kinds]
    assert all(one.default is not one.empty for one in extra)


def test_properties_fields_and_results_are_those_of_the_hosted_client() -> None:
    classes = {one.__name__: one for one, _ in PAIRS}
    for line in PROPERTIES.strip().splitlines():
        cls, names = line.split(": ")
        has = set(members(classes[cls])) | ({"info"} if cls == "Sandbox" else set())
        assert set(names.split()) <= has, cls
    assert set(FIELDS.split()) <= set(CreateFields.__required_keys__ | CreateFields.__optional_keys__)
    assert list(CommandResult.__dataclass_fields__) == RESULT.split()


@pytest.mark.parametrize("cls", [one for one, _ in PAIRS], ids=lambda cls: cls.__name__)
def test_the_reference_names_every_public_method(cls: type) -> None:
    page = re.sub(r"^```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", page))))
    assert {cls.__name__, *members(cls)} <= words


@pytest.mark.parametrize("cls", [one for pair in PAIRS for one in pair], ids=lambda cls: cls.__name__)
def test_every_public_method_says_what_it_does(cls: type) -> None:
    silent = [name for name, value in members(cls).items() if inspect.isfunction(value) and not inspect.getdoc(value)]
    assert silent == []
