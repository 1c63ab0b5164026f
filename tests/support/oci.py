"""OCI image layouts written by hand: blobs, layers, index; and a registry of one on 127.0.0.1.

Source: https://github.com/opencontainers/image-spec, https://github.com/opencontainers/distribution-spec.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import re
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
NAME = "org.opencontainers.image.ref.name"
HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def folder(name: str, mode: int = 0o755, uid: int = 0) -> tuple[tarfile.TarInfo, bytes]:
    return _info(name, tarfile.DIRTYPE, mode, uid), b""


def file(name: str, content: bytes = b"", mode: int = 0o644, uid: int = 0) -> tuple[tarfile.TarInfo, bytes]:
    info = _info(name, tarfile.REGTYPE, mode, uid)
    info.size = len(content)
    return info, content


def link(name: str, target: str, *, hard: bool = False) -> tuple[tarfile.TarInfo, bytes]:
    info = _info(name, tarfile.LNKTYPE if hard else tarfile.SYMTYPE, 0o777, 0)
    info.linkname = target
    return info, b""


def device(name: str) -> tuple[tarfile.TarInfo, bytes]:
    info = _info(name, tarfile.CHRTYPE, 0o666, 0)
    info.devmajor, info.devminor = 1, 3
    return info, b""


def _info(name: str, kind: bytes, mode: int, uid: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.mtime = kind, mode, uid, uid, 1_700_000_000
    return info


def layer(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a layer's tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class Layout:
    """A layout that is written as it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listed: list[dict[str, Any]] = []
        (path / "blobs" / "sha256").mkdir(parents=True)
        (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self._write()

    def _write(self) -> None:
        (self.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": self._listed}))

    def blob(self, content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (self.path / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    def json(self, document: Mapping[str, Any], kind: str) -> dict[str, Any]:
        return self.blob(json.dumps(document).encode(), kind)

    def manifest(self, layers: Sequence[bytes], config: Mapping[str, Any], architecture: str = HERE) -> dict[str, Any]:
        """Write an image and return its descriptor."""
        whole = {
            "architecture": architecture,
            "os": "linux",
            "config": dict(config),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]},
            "history": [{"created_by": "a test"} for _ in layers],
        }
        packed = [self.blob(gzip.compress(one, 1, mtime=0), LAYER) for one in layers]
        made = {
            "schemaVersion": 2, "mediaType": MANIFEST, "config": self.json(whole, CONFIG), "layers": packed,
        }  # fmt: skip
        return self.json(made, MANIFEST)

    def tag(self, name: str, descriptor: Mapping[str, Any]) -> str:
        """Give an image a tag and return its digest."""
        self._listed = [one for one in self._listed if one.get("annotations", {}).get(NAME) != name]
        self._listed.append({**descriptor, **({"annotations": {NAME: name}} if name else {})})
        self._write()
        return str(descriptor["digest"])

    def image(self, name: str, layers: Sequence[bytes], **config: Any) -> str:
        return self.tag(name, self.manifest(layers, config))

    def tags(self) -> dict[str, str]:
        return {one.get("annotations", {}).get(NAME, ""): one["digest"] for one in self._listed}


@contextmanager
def registry(layout: Layout, name: str) -> Iterator[tuple[str, list[str]]]:
    """Serve a layout as a repository `name`, read-only over plain HTTP; gives host:port and the paths asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            asked.append(self.path)
            if self.path.rstrip("/") == "/v2":
                return self._give(b"{}", "application/json")
            found = re.fullmatch(rf"/v2/{re.escape(name)}/(manifests|blobs)/(.+)", self.path)
            digest = found and (layout.tags().get(found[2]) or found[2])
            path = layout.path / "blobs" / "sha256" / str(digest).removeprefix("sha256:")
            if found is None or not path.is_file():
                return self._refuse("MANIFEST_UNKNOWN", "manifest unknown")
            content = path.read_bytes()
            kind = "application/octet-stream"
            if found[1] == "manifests":
                kind = json.loads(content).get("mediaType", MANIFEST)
            self._give(content, kind, str(digest))

        def _give(self, content: bytes, kind: str, digest: str = "") -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if digest:
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def _refuse(self, code: str, text: str) -> None:
            body = json.dumps({"errors": [{"code": code, "message": text}]}).encode()
            self.send_response(404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


PROGRAMS = ("bash", "cat", "id", "ls", "stat", "pwd", "env", "mkdir", "touch", "readlink", "sleep", "rm", "chown")
LIBRARIES = (
    "libc.so.6",
    "libtinfo.so.6",
    "libselinux.so.1",
    "libpcre2-8.so.0",
    "libacl.so.1",
    "libattr.so.1",
    "libcap.so.2",
)


def system(rootfs: Path) -> bytes:
    """Return a layer with a shell and some programs, taken from a Debian's tree."""
    entries = [folder("usr"), folder("usr/bin"), folder("usr/lib"), folder("etc"), folder("var")]
    entries += [link("bin", "usr/bin"), link("lib", "usr/lib"), link("lib64", "usr/lib"), link("usr/bin/sh", "bash")]
    for name in PROGRAMS:
        entries.append(file(f"usr/bin/{name}", (rootfs / "usr/bin" / name).read_bytes(), 0o755))
    for name in (*LIBRARIES, "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"):
        found = next(iter(rootfs.glob(f"usr/lib/*-linux-gnu/{name}")), None)
        if found is not None:
            entries.append(file(f"usr/lib/{name}", found.read_bytes(), 0o755))
    passwd = b"root:x:0:0:root:/root:/bin/bash\nworker:x:1234:1234::/home/worker:/bin/bash\n"
    entries += [file("etc/passwd", passwd), file("etc/group", b"root:x:0:\nworker:x:1234:\nteam:x:77:a,worker\n")]
    entries += [folder("home"), folder("home/worker", uid=1234)]
    return layer(*entries)
