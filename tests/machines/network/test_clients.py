"""The programs people use come out through the broker, with nothing but their environment set."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.machines.network.outside import lookup
from takeback.machines.network.registries import Preset, registries
from takeback.machines.network.rules import read_rules
from tests.machines.network.support import Sandbox, http_server, program, run, sandbox, serving


def needs(*programs: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not all(map(shutil.which, programs)), reason=f"no {' or '.join(programs)}")


@needs("curl")
def test_curl_by_http_connect_and_socks(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init) as box:
            url = f"http://127.0.0.1:{server.port}/"
            for options in ([], ["-p"], ["--proxy", f"socks5h://127.0.0.1:{box.port}"]):
                assert await program(["curl", "-sS", *options, url], box.environment()) == (0, "hello")
            _, said = await program(["curl", "-sS", "-i", "http://evil.test/"], box.environment())
            assert "X-Runtime-Egress: rule-not-allowed" in said and "allow: evil.test" in said
            assert {entry.method for entry in box.log()} == {"GET", "CONNECT", "SOCKS5"}

    run(work())


def test_urllib(tmp_path: Path, init: Path) -> None:
    async def work() -> None:
        async with http_server() as server, sandbox(tmp_path, init) as box:
            source = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{server.port}/').read())"
            assert await program([sys.executable, "-c", source], box.environment()) == (0, "b'hello'\n")

    run(work())


@needs("git")
def test_git_clones_over_http(tmp_path: Path, init: Path) -> None:
    bare = tmp_path / "srv" / "repo.git"
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=a", "-c", "user.email=a@a.test"]

    def git(*arguments: str) -> None:
        subprocess.run(["git", *who, *arguments], env=plain, check=True, capture_output=True)

    git("init", "-q", "--bare", str(bare))
    git("clone", "-q", str(bare), str(tmp_path / "one"))
    (tmp_path / "one" / "file").write_text("content")
    git("-C", str(tmp_path / "one"), "add", "file")
    git("-C", str(tmp_path / "one"), "commit", "-qm", "first")
    git("-C", str(tmp_path / "one"), "push", "-q", "origin", "HEAD:refs/heads/main")
    git("-C", str(bare), "symbolic-ref", "HEAD", "refs/heads/main")
    git("-C", str(bare), "update-server-info")

    async def files(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            path = tmp_path / "srv" / head.split(b" ")[1].decode().split("?")[0].lstrip("/")
            found = path.is_file()
            body = path.read_bytes() if found else b""
            writer.write(f"HTTP/1.1 {200 if found else 404} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()

    async def work() -> None:
        async with serving(files) as port, sandbox(tmp_path, init) as box:
            argv = ["git", "clone", f"http://127.0.0.1:{port}/repo.git", str(tmp_path / "two")]
            code, said = await program(argv, box.environment(HOME=str(tmp_path)))
            assert code == 0, said
            assert (tmp_path / "two" / "file").read_text() == "content"

    run(work())


@pytest.fixture(scope="module")
def preset() -> Preset:
    return registries(os.environ)


def reachable(preset: Preset, tool: str) -> None:
    """Skip where this machine's own tool has no registry that answers from here."""
    if not any(name == tool for name, _ in preset.found):
        pytest.skip(f"{tool} has no registry here")

    async def any_answers() -> bool:
        for host in preset.allow:
            try:
                return bool(await lookup(host))
            except (OSError, TimeoutError):
                continue
        return False

    if not run(any_answers()):
        pytest.skip("no registry can be looked up from here")


async def registry(box: Sandbox, argv: list[str], env: dict[str, str], cwd: Path) -> None:
    code, said = await program(argv, box.environment(**env), cwd)
    if code and not box.log(allowed=True):
        pytest.fail(said)
    if any(entry.ended.startswith("unreachable") for entry in box.log()):
        pytest.skip("the registry does not answer")
    assert code == 0, f"{said}\n{box.log()}"
    assert box.log(allowed=True), said


def rules_of(preset: Preset) -> dict[str, object]:
    return {"allow": preset.allow, "connect": preset.connect}


def test_pip_downloads_through_the_preset(tmp_path: Path, init: Path, preset: Preset) -> None:
    reachable(preset, "pip")

    async def work() -> None:
        async with sandbox(tmp_path, init, read_rules(**rules_of(preset))) as box:
            box.broker._resolver = lookup
            argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "-q", "-d", str(tmp_path)]
            env = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
            env |= {"PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "HOME": str(tmp_path)}
            await registry(box, [*argv, "iniconfig==2.0.0"], env, tmp_path)
            assert list(tmp_path.glob("iniconfig*"))

    run(work(), 120)


@needs("npm")
def test_npm_installs_through_the_preset(tmp_path: Path, init: Path, preset: Preset) -> None:
    reachable(preset, "npm")

    async def work() -> None:
        async with sandbox(tmp_path, init, read_rules(**rules_of(preset))) as box:
            box.broker._resolver = lookup
            await registry(box, ["npm", "install", "--no-audit", "ms@2.1.3"], {"HOME": str(tmp_path)}, tmp_path)
            assert (tmp_path / "node_modules" / "ms").is_dir()

    run(work(), 120)


@needs("apt-get")
def test_apt_updates_through_the_preset(tmp_path: Path, init: Path, preset: Preset) -> None:
    reachable(preset, "apt")

    async def work() -> None:
        async with sandbox(tmp_path, init, read_rules(**rules_of(preset))) as box:
            box.broker._resolver = lookup
            folders = ["lists/partial", "archives/partial"]
            for folder in folders:
                (tmp_path / folder).mkdir(parents=True)
            where = [f"Dir::State::Lists={tmp_path}/lists", f"Dir::Cache={tmp_path}", "APT::Sandbox::User="]
            where += [f"Dir::Cache::Archives={tmp_path}/archives", "Acquire::Languages=none"]
            options = [part for one in where for part in ("-o", one)]
            await registry(box, ["apt-get", "update", "-q", *options], {}, tmp_path)
            assert list((tmp_path / "lists").glob("*Packages*"))

    run(work(), 180)
