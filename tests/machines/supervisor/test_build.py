"""The binary: by content, in place as a whole, and errors that say what is missing."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from takeback.errors import SupervisorMissing
from takeback.machines.layout import MachinesDir
from takeback.machines.supervisor import build, sources

TOP = Path(__file__).resolve().parents[3]


def test_the_folder_is_named_by_content_and_holds_nothing_else(tmp_path: Path) -> None:
    found = build.supervisor_binary(MachinesDir(tmp_path))
    assert found.parent.name == hashlib.sha256(found.read_bytes()).hexdigest()
    assert os.listdir(found.parent) == ["init"]
    assert found.stat().st_mode & 0o7777 == 0o755 and found.parent.stat().st_mode & 0o7777 == 0o755
    assert not [name for name in os.listdir(tmp_path / "supervisor") if name.startswith(".")]


def test_it_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.supervisor_binary(MachinesDir(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert build.supervisor_binary(MachinesDir(tmp_path)) == first


@pytest.mark.long
def test_a_spoiled_binary_is_made_anew(tmp_path: Path) -> None:
    first = build.supervisor_binary(MachinesDir(tmp_path))
    whole = first.read_bytes()
    first.write_bytes(whole[:100])
    assert build.supervisor_binary(MachinesDir(tmp_path)).read_bytes() == whole


def _make(root: str) -> str:
    return str(build.supervisor_binary(MachinesDir(Path(root))))


@pytest.mark.long
def test_two_at_once_both_find_it_whole(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.map(_make, [str(tmp_path)] * 2)
    assert first == second
    assert Path(first).parent.name == hashlib.sha256(Path(first).read_bytes()).hexdigest()


def test_the_shipped_one_is_used_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = tmp_path / "bin" / os.uname().machine / "init"
    shipped.parent.mkdir(parents=True)
    shipped.write_bytes(b"shipped")
    monkeypatch.setattr(sources, "SHIPPED", tmp_path / "bin")
    monkeypatch.setenv("PATH", "/nowhere")
    assert build.supervisor_binary(MachinesDir(tmp_path / "data")).read_bytes() == b"shipped"


def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SupervisorMissing) as caught:
        build.supervisor_binary(MachinesDir(tmp_path))
    assert "gcc" in caught.value.hint_text and "libc6-dev" in caught.value.hint_text


def test_what_the_compiler_said_is_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cc").write_text("#!/bin/sh\necho 'cannot find -lc' >&2\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SupervisorMissing, match="cannot find -lc"):
        build.supervisor_binary(MachinesDir(tmp_path / "data"))


@pytest.mark.long
def test_a_wheel_ships_a_static_binary_for_each_processor_there_is_a_compiler_for(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(TOP)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        shipped = {name.split("/")[-2]: name for name in wheel.namelist() if name.endswith("/init")}
        wanted = {os.uname().machine}
        wanted |= {one for one, names in sources.CROSS_COMPILERS.items() if any(map(shutil.which, names))}
        assert set(shipped) == wanted
        for machine, name in shipped.items():
            binary = wheel.read(name)
            # elf(5): e_machine, e_phoff, e_phentsize, e_phnum; PT_INTERP (3) is what a static program has not.
            (kind,) = struct.unpack_from("<H", binary, 18)
            (start,), (size, count) = struct.unpack_from("<Q", binary, 32), struct.unpack_from("<HH", binary, 54)
            headers = [struct.unpack_from("<I", binary, start + number * size)[0] for number in range(count)]
            assert binary[:4] == b"\x7fELF" and kind == {"x86_64": 62, "aarch64": 183}[machine] and 3 not in headers
            note = f"{os.path.dirname(name)}/NOT-RUN.txt"
            assert (note in wheel.namelist()) == (machine != os.uname().machine)


def test_the_header_and_the_page_agree_on_every_number() -> None:
    page = (TOP / "docs/formats/channel.md").read_text()
    header = (sources.FOLDER / "wire.h").read_text()
    tags = re.search(r"Field tags: (.*?)\.\n", page, re.S)
    assert tags is not None
    told = {name: int(number) for number, name in re.findall(r"(\d+)\s+([A-Z_]+)", tags[1])}
    listed = re.search(r"T_ARG = 1,(.*?)\}", header, re.S)
    assert listed is not None
    names = ["ARG", *re.findall(r"T_([A-Z_]+)", listed[1])]
    from takeback.machines.channel.frames import Tag, Type

    assert told == {tag.name: tag.value for tag in Tag}
    assert {name: at for at, name in enumerate(names, 1)}.items() <= told.items()
    kinds = {(int(number), name) for number, name in re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", page, re.M)}
    ours = {(kind.value, kind.name.removeprefix("GUEST_")) for kind in Type}
    assert kinds == ours


def test_every_file_of_the_supervisor_is_short() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in sources.FOLDER.glob("*.[ch]")}
    assert len(sizes) > 15 and max(sizes.values()) <= 400
