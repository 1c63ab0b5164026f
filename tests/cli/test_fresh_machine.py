"""The two commands of the README on a fresh Debian that is not this machine's: only base packages, no git, no Python.

Needs root and mmdebstrap (`scripts/test --all` installs it), and takes this machine's own apt and pip settings along.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
OTHER = {"bookworm": "trixie", "trixie": "bookworm"}


def this_debian() -> str:
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can make a chroot"),
    pytest.mark.skipif(this_debian() not in OTHER, reason="this machine is no Debian 12 or 13"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed"),
]


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@dataclass
class Machine:
    """A directory with a fresh system, and what of this machine's settings it needs to reach the registries."""

    root: Path
    pip: dict[str, str]
    shared: list[str]

    def run(self, script: str, *, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run shell source there; its mounts live in their own namespace and are gone at the end."""
        mounts = [f"mount --bind {self.root} {self.root}", f"mount -t proc proc {self.root}/proc"]
        mounts += [f"mount --rbind /{name} {self.root}/{name}" for name in ("dev", "sys")]
        for path in self.shared:
            mounts += [f"mkdir -p {self.root}{path}", f"mount --bind {path} {self.root}{path}"]
        settings = " ".join(f"{name}='{value}'" for name, value in self.pip.items())
        path = "/usr/sbin:/usr/bin:/sbin:/bin"
        # A root of its own, not only a chroot: in one of those the kernel allows no user namespaces.
        mounts += [f"cd {self.root}", "pivot_root . .", "umount -l ."]
        call = f'chroot --userspec={user}:{user} . env -i PATH={path} HOME= {settings} bash -c "$SCRIPT"'
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "bash", "-ec", "\n".join([*mounts, f"exec {call}"])],
            env={"PATH": os.environ["PATH"], "SCRIPT": script},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def pip_settings(root: Path) -> tuple[dict[str, str], list[str]]:
    """Return this machine's settings of pip and npm as variables for `root`, and the directories that they name.

    Files they name are copied: installing ca-certificates there would write over a bundle at the usual place.
    """
    variables: dict[str, str] = {}
    shared: list[str] = []
    for line in output(sys.executable, "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        words = []
        for word in value.strip("'\"").replace("\\n", " ").split():
            path = word.removeprefix("file://")
            if os.path.isdir(path) and path.startswith("/"):
                top = "/" + "/".join(path.split("/")[1:3])
                if top not in shared:
                    shared.append(top)
            elif os.path.isfile(path):
                copy = root / "srv" / "pip" / Path(path).name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
                word = f"/srv/pip/{copy.name}"
            words.append(word)
        variables["PIP_" + name.rpartition(".")[2].upper().replace("-", "_")] = " ".join(words)
    for name in ("cafile", "registry"):
        done = subprocess.run(["npm", "config", "get", name], capture_output=True, text=True, check=False)
        value = done.stdout.strip()
        if done.returncode == 0 and value not in ("", "null", "undefined"):
            if os.path.isfile(value):
                copy = root / "srv" / "pip" / Path(value).name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(value, copy)
                value = f"/srv/pip/{copy.name}"
                variables["NODE_EXTRA_CA_CERTS"] = value
            variables[f"npm_config_{name}"] = value
    return variables, shared


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    top = tmp_path_factory.mktemp("fresh")
    os.chmod(top, 0o755)
    root = top / "root"
    options = top / "apt.conf"
    options.write_text(
        "".join(line for line in output("apt-config", "dump").splitlines(True) if line.startswith("Acquire::"))
    )
    mirror = output("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages").split("\n")[0]
    mirror = re.sub(r"-security/?$", "", mirror)
    suite = OTHER[this_debian()]
    subprocess.run(
        ["mmdebstrap", "--variant=minbase", f"--aptopt={options}", suite, str(root), mirror],
        check=True,
        capture_output=True,
    )
    for name in ("resolv.conf", "hosts"):
        if os.path.exists(f"/etc/{name}"):
            shutil.copy(f"/etc/{name}", root / "etc" / name)
    own = Path("/usr/local/share/ca-certificates")  # authorities of this machine's network: installed with the others
    if own.is_dir():
        shutil.copytree(own, root / own.relative_to("/"), dirs_exist_ok=True)
    copy_sources(root / "srv" / "takeback")
    made = Machine(root, *pip_settings(root))
    yield made
    shutil.rmtree(root)


def copy_sources(target: Path) -> None:
    """Copy what a clone would hold, with what is not committed yet."""
    listed = output("git", "-c", "safe.directory=*", "-C", str(TOP), "ls-files", "-z", "-co", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if os.path.lexists(TOP / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, target / name, follow_symlinks=False)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout[-20000:] + done.stderr[-5000:]


def passed(done: subprocess.CompletedProcess[str]) -> bool:
    last = (done.stdout.strip() or "nothing").splitlines()[-1]
    return done.returncode == 0 and re.search(r"\d+ passed", last) is not None and "failed" not in last


def test_a_fresh_machine_runs_both_commands_of_the_readme(machine: Machine) -> None:
    # One test, because each step needs what the one before left, and tests may be dealt to several processes.
    machine.run("useradd -m dev; cp -r /srv/takeback /home/dev/takeback; chown -R dev: /home/dev")
    without = machine.run("cd /home/dev/takeback && scripts/test", user="dev")
    assert without.returncode == 1
    assert "apt-get install git python3 python3-venv" in without.stderr

    as_root = machine.run("cd /srv/takeback && scripts/test")
    assert passed(as_root), said(as_root)
    shown = machine.run("cd /srv/takeback && scripts/demo")
    assert shown.returncode == 0, said(shown)

    as_user = machine.run("cd /home/dev/takeback && scripts/test", user="dev")
    assert passed(as_user), said(as_user)
    shown = machine.run("cd /home/dev/takeback && scripts/demo", user="dev")
    assert shown.returncode == 0, said(shown)
