"""pip, npm, apt and git get what they need in a sandbox that may reach the user's own registries and nothing else."""

from __future__ import annotations

import ensurepip
import os
import shutil
import ssl
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.machines.client.faces import Face
from tests.machines.client.web import serving

ONLY = {"internet": False, "allow": ["registries"]}
QUARTER_HOUR = 900_000
BUNDLE = "/workspace/authorities.pem"
TRUST = dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"), BUNDLE)


async def run(box: Any, command: str, **more: Any) -> str:
    done = await box.exec(command, timeout_ms=QUARTER_HOUR, **more)
    assert done.exit_code == 0, f"{command}\n{done.stdout}\n{done.stderr}\n{await box.network.log()}"
    return str(done.stdout)


async def trust(box: Any) -> None:
    """Let it trust whom this machine trusts: a mirror in a company's network has a certificate of the company's."""
    known = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    await box.files.upload(known or "/etc/ssl/certs/ca-certificates.crt", BUNDLE)


async def hosts(box: Any, *, allowed: bool) -> set[str]:
    return {entry["host"] for entry in await box.network.log() if entry["allowed"] is allowed}


@pytest.mark.long
async def test_pip_installs_from_the_registry(one: Face, tmp_path: Path) -> None:
    folders = (Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels"))  # Debian's place
    wheel = next(found for folder in folders for found in folder.glob("pip-*.whl"))
    async with await one.create(network=ONLY, env=TRUST) as box:
        await trust(box)
        await box.files.upload(str(wheel), f"/workspace/{wheel.name}")
        pip = f"python3 /workspace/{wheel.name}/pip --disable-pip-version-check"
        await run(box, f"{pip} install --no-input --target /workspace/lib iniconfig")
        assert "ok" in await run(box, "python3 -c 'import iniconfig; print(\"ok\")'", env={"PYTHONPATH": "lib"})
        assert await hosts(box, allowed=True) and not await hosts(box, allowed=False)
        done = await box.exec("curl -sS https://example.com/")
        assert done.exit_code != 0 and await hosts(box, allowed=False) == {"example.com"}


async def test_apt_installs_from_the_mirror(one: Face) -> None:
    async with await one.create(network=ONLY) as box:
        await run(box, "sudo apt-get -qq update")
        await run(box, "sudo apt-get -qq install -y --no-install-recommends hello")
        assert "Hello" in await run(box, "hello")
        # Without any variable too: what cron, su or a clean environment starts.
        await run(box, "env -i PATH=$PATH sudo apt-get -qq download tzdata", cwd="/tmp")


@pytest.mark.long
@pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="no node here to lend to a sandbox")
async def test_npm_installs_from_the_registry(one: Face, tmp_path: Path) -> None:
    node, npm = os.path.realpath(shutil.which("node") or ""), os.path.realpath(shutil.which("npm") or "")
    with tarfile.open(tmp_path / "node.tar", "w") as tar:
        tar.add(node, "node/bin/node")
        tar.add(Path(npm).parents[1], "node/npm")
    async with await one.create(network=ONLY, env=TRUST) as box:
        await trust(box)
        await box.files.upload(str(tmp_path / "node.tar"), "/workspace/node.tar")
        await run(box, "tar -xf node.tar && rm node.tar")
        install = (
            "PATH=/workspace/node/bin:$PATH node node/npm/bin/npm-cli.js install --no-audit --no-fund isarray@2.0.5"
        )
        await run(box, install)
        shown = await run(box, "node/bin/node -p 'require(\"isarray\")([])'")
        assert shown == "true\n" and not await hosts(box, allowed=False)


async def test_git_clones_over_http(one: Face, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    work, bare = tmp_path / "work", tmp_path / "repo.git"
    work.mkdir()
    (work / "file").write_text("content")
    who = ("-c", "user.name=a", "-c", "user.email=a@a.test")
    for words in (
        ("init", "-q", "-b", "main", str(work)),
        ("-C", str(work), "add", "file"),
        (*("-C", str(work)), *who, "commit", "-qm", "first"),
        ("clone", "-q", "--bare", str(work), str(bare)),
        ("-C", str(bare), "update-server-info"),
    ):
        subprocess.run(["git", *words], env=env, check=True, capture_output=True)
    with serving(tmp_path) as server:
        async with await one.create(network={**ONLY, "connect": [server.address]}) as box:
            clone = f"git clone -q http://{server.address}/repo.git"
            await run(box, clone, env={"NO_PROXY": "", "no_proxy": ""})
            assert await box.files.read_text("/workspace/repo/file") == "content"
