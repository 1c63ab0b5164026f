"""What lies on the host's disk for gVisor: spoiled layers, saves too big for memory, folders written through."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from takeback.errors import CannotSave, SnapshotDamaged
from takeback.machines.engine import DiskKind, Saved, State
from takeback.machines.engines.gvisor import frozen, header, room
from tests.machines.engines.conftest import Lab

MORE = "mkdir -p /root/d; head -c 12000000 /dev/zero > /root/big; echo x > /root/x; echo y > /root/d/y; rm -rf /media"


@pytest.fixture
def layers(tmp_path: Path, make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(tmp_path, DiskKind.LAYERS)


def refused(lab: Lab, saved: Saved) -> bool:
    """Whether a snapshot is said to be damaged before anything is started."""
    stranger = lab.machine()
    try:
        lab.engine.restore(stranger, saved)
    except SnapshotDamaged:
        return lab.engine.state(stranger) is State.STOPPED
    return False


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("small", [True, False])
def test_a_spoiled_layer_is_refused_before_anything_starts(layers: Lab, memory: bool, small: bool) -> None:
    machine, guest = layers.started()
    guest.sh(MORE if not small else MORE.replace("12000000", "12"))
    saved = layers.save(machine, guest, memory=memory)
    guest.sh("echo z > /root/z")
    later = layers.save(machine, guest, memory=memory)
    upper = saved.layers[-1] / "upper"
    file = upper / "root" / "d" / "y"
    before = os.stat(file)

    def back() -> None:
        file.write_bytes(b"y\n")
        os.chmod(file, before.st_mode & 0o7777)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert not refused(layers, saved)
    spoil: Sequence[Callable[[], object]] = (
        lambda: os.truncate(file, 1),
        lambda: file.write_bytes(b"n\n"),
        file.unlink,
        lambda: file.chmod(0o777),
        lambda: os.utime(file, ns=(0, 0)),
        lambda: (file.with_name("added").write_bytes(b""), None),
    )
    for how in spoil:
        how()
        # The later one lies over the same layer where the disk is not copied each time.
        assert refused(layers, saved)
        assert refused(layers, later) == (saved.layers[-1] in later.layers)
        file.with_name("added").unlink(missing_ok=True)
        back()
        assert guest.sh("cat /root/x /root/z") == "x\nz\n"
    assert layers.restored(saved)[1].sh("cat /root/d/y; ls -d /media 2>/dev/null || echo gone") == "y\ngone\n"


def test_only_so_much_of_a_layer_is_looked_at(layers: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    real = frozen.summary

    def counting(folder: Path) -> tuple[str, int]:
        looked_at.append(real(folder, 20)[1])
        return real(folder, 20)

    monkeypatch.setattr(frozen, "LIMIT", 20)
    monkeypatch.setattr(frozen, "summary", counting)
    machine, guest = layers.started()
    saved = []
    for number in range(3):
        guest.sh(
            f"head -c 9000000 /dev/zero > /root/big; for i in 1 2 3 4 5 6 7 8 9; do echo > /root/f{number}$i; done"
        )
        saved.append(layers.save(machine, guest))
    assert len(saved[-1].layers) == 3
    assert looked_at and len(looked_at) == 3  # each once, when it was frozen
    looked_at.clear()
    layers.engine.restore(layers.machine(), saved[-1])
    assert 0 < sum(looked_at) <= 40


def test_a_save_for_copies_alone_looks_through_nothing(layers: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, guest = layers.started()
    guest.sh(MORE)
    looked_at: list[Path] = []
    real = frozen.summary
    monkeypatch.setattr(frozen, "summary", lambda folder: (looked_at.append(folder), real(folder))[1])
    with guest.quiet():
        layers.engine.fork(machine, [layers.machine()], layers.passing(), answers=guest.answers)
    assert looked_at == []
    assert layers.guest(layers.machines[-1]).sh("cat /root/x") == "x\n"
    layers.restored(layers.save(machine, guest))
    assert looked_at != []


# -- no room in memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disk", list(DiskKind))
def test_what_does_not_fit_into_memory_goes_to_the_disk(
    tmp_path: Path, make_lab: Callable[..., Lab], disk: DiskKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(tmp_path, disk)
    staged = Path("/dev/shm")
    own = f"{room.own_name(lab.data.root)}*"
    machine, guest = lab.started()
    guest.sh("echo x > /root/x; head -c 20000000 /dev/urandom > /tmp/held")
    made: list[str] = []
    real = room.Scratch.make

    def make(scratch: room.Scratch, name: str) -> Path | None:
        made.append(name)
        return real(scratch, name)

    monkeypatch.setattr(room.Scratch, "make", make)
    assert lab.restored(lab.save(machine, guest))[1].sh("cat /root/x") == "x\n"
    in_memory = lab.engine.passing("roomy", machine)
    assert in_memory.parent == staged and made[-1] == "roomy" and len(made) == 2
    lab.snapshots.append(in_memory)

    asked: list[int] = []
    # Room for next to nothing: not for what this machine has.
    monkeypatch.setattr(room.Scratch, "free", lambda _: (asked.append(1), 4 << 20)[1])
    made.clear()
    assert lab.restored(lab.save(machine, guest))[1].sh("cat /root/x") == "x\n"
    into = lab.engine.passing("tight", machine)
    lab.snapshots.append(into)
    assert into == lab.data.root / "passing" / "tight" and asked
    copies = [lab.machine(), lab.machine()]
    with guest.quiet():
        saved = lab.engine.fork(machine, copies, into, answers=guest.answers)
    assert sum(size for _, size in saved.files) > 20_000_000
    assert [lab.guest(one).sh("cat /root/x; wc -c < /tmp/held") for one in copies] == ["x\n20000000\n"] * 2
    # As long as its files are untouched a copy that failed can be brought up from it.
    assert header.read(into).problem(into) == ""
    assert lab.restored(saved)[1].sh("cat /root/x") == "x\n"
    assert made == [] and list(staged.glob(own)) == [in_memory]


# -- folders of this machine ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("disk", list(DiskKind))
def test_a_machine_that_writes_to_a_folder_of_this_machine_is_not_saved(
    tmp_path: Path, make_lab: Callable[..., Lab], disk: DiskKind
) -> None:
    lab = make_lab(tmp_path, disk)
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o777)
    machine, guest = lab.started(replace(lab.spec, binds=((volume, "/opt", True),)))
    guest.sh("echo w > /opt/w; echo x > /root/x")
    assert (volume / "w").read_text() == "w\n"
    with guest.quiet():
        for memory in (True, False):
            with pytest.raises(CannotSave, match="/opt"):
                lab.engine.save(machine, lab.folder(), memory=memory, answers=guest.answers)
        copy = lab.machine(machine.spec)
        with pytest.raises(CannotSave, match="/opt"):
            lab.engine.fork(machine, [copy], lab.passing(), answers=guest.answers)
    assert lab.engine.state(copy) is State.STOPPED and [os.listdir(one) for one in lab.snapshots[:2]] == [[], []]
    assert guest.sh("cat /root/x /opt/w; echo more >> /opt/w") == "x\nw\n"
    assert (volume / "w").read_text() == "w\nmore\n"

    reading, other = lab.started(replace(lab.spec, binds=((volume, "/opt", False),)))
    assert lab.restored(lab.save(reading, other), reading.spec)[1].sh("cat /opt/w") == "w\nmore\n"
