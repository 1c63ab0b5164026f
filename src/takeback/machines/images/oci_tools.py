"""The only code that spells `skopeo` and `umoci`: fetch an image into a layout, and unpack a layout's image.

The system's own are used where they are; else their Debian packages are unpacked into takeback's folder, with the
libraries that are missing here. Nothing is installed. umoci alone is needed for a layout, skopeo for a registry.

Does not cover: which image, and where it is kept (`oci`).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from takeback.errors import FetchFailed, ToolMissing
from takeback.host import apt, apt_sources, system, tools
from takeback.machines.images.reference import Reference
from takeback.machines.making import Report, alone, put, scratch

# umoci before 0.4.7 let a layer write outside of the folder that it is unpacked to (CVE-2021-29136).
# skopeo 1.0 has --insecure-policy, --override-os and --src-tls-verify, which is all that is asked of it.
MINIMUM = {"umoci": (0, 4, 7), "skopeo": (1, 0, 0)}
_ASK_SECONDS = 30.0
_COPY_SECONDS, _UNPACK_SECONDS = 7200.0, 1800.0
_LIBRARIES = 3  # how deep a missing library may need another
_NAMES = ("HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "SSL_CERT_FILE")
_POLICIES = ("~/.config/containers/policy.json", "/etc/containers/policy.json")


@dataclass(frozen=True)
class Tool:
    """A program, and where libraries are that only it uses."""

    path: str
    libraries: str = ""

    def env(self) -> dict[str, str]:
        """Return its environment: with what says who the user is to a registry."""
        env = tools.environment() | {name: os.environ[name] for name in _NAMES if name in os.environ}
        return env | ({"LD_LIBRARY_PATH": self.libraries} if self.libraries else {})


def find(name: str, folder: Path) -> Tool | None:
    """Return the system's, if it is new enough, else takeback's own in `folder`, or None."""
    if tools.have(name) and _usable(name, found := Tool(name)):
        return found
    path = folder / name / "usr" / "bin" / name
    if path.is_file():
        own = Tool(os.fspath(path), _libraries(folder / name))
        if _usable(name, own):
            return own
    return None


def ensure(name: str, folder: Path, report: Report) -> Tool:
    """Return the tool, brought here first if need be. Raises ToolMissing, FetchFailed, DiskFull, CannotWrite, Busy."""
    found = find(name, folder)
    if found is not None:
        return found
    with alone(folder, f"getting {name}", report):
        if find(name, folder) is None:
            _get(name, folder, report)
    found = find(name, folder)
    if found is None:
        raise _missing(name)
    return found


def _get(name: str, folder: Path, report: Report) -> None:
    source = apt_sources.debian_source(system.debian()) if system.debian() and apt.is_here() else None
    if source is None:
        raise _missing(name)
    report(f"fetching {name}")
    with scratch(folder) as work, apt.private([source]) as private:
        made = work / "made"
        made.mkdir()
        private.update()
        version = private.unpack(name, made)
        needed = [name]
        for _ in range(_LIBRARIES):
            if _usable(name, Tool(os.fspath(made / "usr/bin" / name), _libraries(made))):
                break
            needed = [one for package in needed for one in private.depends(package) if _is_library(one)]
            for package in needed:
                private.unpack(package, made)
        else:
            raise FetchFailed(what=name, why=f"the package {name} {version} does not run here")
        record = {"schema": 1, "version": version, "source": f"Debian {source.suite}, package {name}"}
        (made / "tool.json").write_text(json.dumps(record, indent=1) + "\n")
        put(made, folder / name)


def copy(skopeo: Tool, reference: Reference, layout: Path, tag: str, work: Path, report: Report) -> str:
    """Fetch what a reference names into a layout; return why that is not possible, or an empty text."""
    trusting = [] if any(os.path.exists(os.path.expanduser(one)) for one in _POLICIES) else ["--insecure-policy"]
    plain = ["--src-tls-verify=false"] if reference.is_loopback else []
    words = [skopeo.path, *trusting, "--override-os=linux", "copy", *plain, "--format=oci", reference.location]
    return _run([*words, f"oci:{layout}:{tag}"], skopeo, _COPY_SECONDS, work, report)


def unpack(umoci: Tool, layout: Path, tag: str, rootfs: Path, work: Path, report: Report) -> str:
    """Unpack a layout's image into a new folder; as an ordinary user all of it is that user's. Return what went wrong.

    Whiteouts are done, digests of all layers are checked.
    """
    rootless = [] if system.is_root() else ["--rootless"]
    words = [umoci.path, "raw", "unpack", *rootless, "--image", f"{layout}:{tag}", os.fspath(rootfs)]
    return _run(words, umoci, _UNPACK_SECONDS, work, report)


def _run(words: list[str], tool: Tool, seconds: float, work: Path, report: Report) -> str:
    blobs = 0

    def on_line(line: str) -> None:
        nonlocal blobs
        if line.startswith("Copying blob") and "skipped" not in line:
            blobs += 1
            report(f"layer {blobs}")

    code, lines = tools.follow(words, env=tool.env() | {"TMPDIR": os.fspath(work)}, on_line=on_line, timeout=seconds)
    if code == 0:
        return ""
    told = [line for line in lines if "level=fatal" in line or "[fatal]" in line or "error:" in line] or lines[-3:]
    text = " ".join(told).strip() or f"{os.path.basename(tool.path)} ended with {code}"
    found = re.search(r'msg="((?:[^"\\]|\\.)*)"', text)
    return (found[1].replace('\\"', '"') if found else text)[-600:]


def _usable(name: str, tool: Tool) -> bool:
    code, said = tools.ask([tool.path, "--version"], timeout=_ASK_SECONDS, env=tool.env())
    found = re.search(r"version v?(\d+)\.(\d+)(?:\.(\d+))?", said)
    return code == 0 and found is not None and tuple(int(one or 0) for one in found.groups()) >= MINIMUM[name]


def _libraries(folder: Path) -> str:
    places = [*folder.glob("usr/lib/*-linux-gnu*"), *folder.glob("lib/*-linux-gnu*")]
    return ":".join(os.fspath(one) for one in places if one.is_dir())


def _is_library(package: str) -> bool:
    # Not the C library: a program must use the one that its loader is of.
    return package.startswith("lib") and not package.startswith(("libc6", "libc-", "libgcc", "libstdc"))


def _missing(name: str) -> ToolMissing:
    return ToolMissing(tool=name, what="an image from a registry or a layout", packages="skopeo umoci")
