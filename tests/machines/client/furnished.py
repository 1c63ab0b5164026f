"""The default image with PostgreSQL and Node: installed once for the clone, in a sandbox, from the user's sources.

Does not cover: images of an ordinary user, who may not unpack other people's files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from takeback.machines.client.connect import Client
from takeback.machines.client.sandbox import Sandbox
from tests.machines.client import leaks
from tests.support import machines

_VERSION = 1
_QUARTER_HOUR = 900_000
_INSTALL = (
    "export DEBIAN_FRONTEND=noninteractive; sudo apt-get -qq update && sudo -E apt-get -qq install -y"
    " --no-install-recommends postgresql nodejs && sudo apt-get clean && sudo rm -rf /var/lib/apt/lists/*"
)
_PACK = (
    "sudo tar -C / -cf /workspace/all.tar --numeric-owner --exclude=./workspace/all.tar --exclude=./proc/*"
    " --exclude=./sys/* --exclude=./dev/* --exclude=./run/* --exclude=./tmp/* --exclude=./.takeback ."
)


def furnished(base: Mapping[str, Any], runsc: str, supervisor: Path) -> Path:
    """Return the root folder of that image; some minutes when it is not there. Skips where it cannot be made."""
    if os.getuid() != 0:
        pytest.skip("unpacking an image whole takes root")
    root = Path(base["root"])
    place = machines.TOP / ".cache" / "machines" / "furnished" / f"{root.parent.name}-{_VERSION}"
    if not (place / "rootfs").is_dir():
        place.mkdir(parents=True, exist_ok=True)
        data, fresh = Path(tempfile.mkdtemp(prefix="tb-furnish-")), Path(tempfile.mkdtemp(dir=place))
        try:
            _make(data, base, runsc, supervisor, fresh)
            os.chmod(fresh, 0o755)
            os.rename(fresh, place / "rootfs")
        finally:
            leaks.end_keeper(data)
            shutil.rmtree(data, ignore_errors=True)
            shutil.rmtree(fresh, ignore_errors=True)
    return place / "rootfs"


def _make(data: Path, base: Mapping[str, Any], runsc: str, supervisor: Path, into: Path) -> None:
    fields = {"base": base, "supervisor": str(supervisor)}
    client = Client(data, engine="gvisor", prepare=lambda given: {**fields, **given}, environ=os.environ)
    rules = {"internet": False, "allow": ["registries"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{runsc}:{os.environ['PATH']}")
        with Sandbox.create(client=client, disk="layers", network=rules, memory_mib=2048) as box:
            box.exec(_INSTALL, timeout_ms=_QUARTER_HOUR, check=True)
            box.network.off()
            box.exec(_PACK, timeout_ms=_QUARTER_HOUR, check=True)
            box.files.download("/workspace/all.tar", str(data / "all.tar"))
    subprocess.run(["tar", "-C", into, "--numeric-owner", "-xpf", data / "all.tar"], check=True)
