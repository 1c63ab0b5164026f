"""Everything machines need on this computer: looked at, and brought here.

    takeback setup, Sandbox.create()  ->  Setup.ensure
    takeback setup --check, doctor    ->  Setup.findings

Does not cover: starting anything. Silent: what happens is said through `report`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from takeback.errors import NeedsLinux, TakebackError
from takeback.host import system
from takeback.machines import making
from takeback.machines.engines import install
from takeback.machines.engines.gvisor import cgroups, platforms
from takeback.machines.engines.gvisor.platforms import Choice
from takeback.machines.engines.install import Found
from takeback.machines.images import catalogue
from takeback.machines.images.base import Image, ImageSource
from takeback.machines.layout import MachinesDir
from takeback.machines.making import Report, silent
from takeback.model import Finding


@dataclass(frozen=True)
class Ready:
    """What `ensure` found or brought; `made` names what was not there before, with seconds."""

    engine: Found
    platform: Choice
    image: Image | None
    made: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Setup:
    """`search` is the caller's PATH, `mirror` a Debian mirror for machines whose apt knows none.

    `platform` is how the user wants the engine to run programs, empty: as it finds best.
    """

    machines: MachinesDir
    search: str
    mirror: str = ""
    platform: str = ""
    clock: Callable[[], float] = time.monotonic

    def ensure(self, image: str | None = catalogue.DEFAULT, *, report: Report = silent) -> Ready:
        """Bring what is missing; with `image` None only the engine.

        Raises NeedsLinux, UnknownImage, FetchFailed, ImageFetchFailed, ToolMissing, ImageBuildFailed, DiskFull,
        CannotWrite, Busy, StoreReadOnly, EngineFailed when it runs nothing here. What was made before the error stays;
        nothing is ever half made.
        """
        needs_linux()
        source = None if image is None else self._source(image)
        ready = None if source is None else source.find()  # an unknown one is refused before anything is fetched
        making.prepare(self.machines)
        made: list[tuple[str, float]] = []
        began = self.clock()
        before = {one.path for one in install.candidates(self.machines.engine, "")}
        engine = install.ensure(self.machines.engine, self.search, report=report)
        if engine.own and engine.path not in before:
            made.append(("engine", self.clock() - began))
        if source is not None and ready is None:
            began = self.clock()
            ready = source.ensure(report)
            made.append((f"image {ready.name}", self.clock() - began))
        for note in () if ready is None else ready.notes:
            report(note)
        return Ready(engine, self._chosen(engine), ready, tuple(made))

    def findings(self, image: str | None = catalogue.DEFAULT) -> list[Finding]:
        """Return one finding for each thing machines need; changes nothing but for a trial overlay that goes away."""
        if system.name() != "Linux":
            error = NeedsLinux(system=system.name())
            return [Finding("machines", False, str(error), error.hint_text)]
        found = [self._engine(), _namespaces()]
        if image is not None:
            found.insert(1, self._image(image))
        if not any(one.name == "machines: namespaces" and not one.ok for one in found):
            if found[0].ok:
                found.append(self._platform())
            found.append(self._overlay())
        found.append(_limits())
        return found

    @property
    def in_use(self) -> bool:
        """Whether anybody has set machines up or begun to use them here."""
        return self.machines.root.exists()

    def _source(self, name: str) -> ImageSource:
        return catalogue.source(name, self.machines, mirror=self.mirror)

    def _engine(self) -> Finding:
        name = "machines: engine"
        try:
            found = install.find(self.machines.engine, self.search)
        except TakebackError as error:
            return Finding(name, False, str(error), error.hint_text)
        others = [
            f"{one.path} is not used: {one.why_not}"
            for one in install.candidates(self.machines.engine, self.search)
            if one.why_not
        ]
        return Finding(name, True, "; ".join([f"runsc {found.build} at {found.path}", *others]))

    def _chosen(self, engine: Found) -> Choice:
        return platforms.choose(engine.path, self.machines.engine, self.platform)

    def _platform(self) -> Finding:
        name = "machines: platform"
        try:
            choice = self._chosen(install.find(self.machines.engine, self.search))
        except TakebackError as error:
            return Finding(name, False, str(error), error.hint_text)
        return Finding(name, True, str(choice))

    def _image(self, image: str) -> Finding:
        name = "machines: image"
        try:
            found = self._source(image).find()
        except TakebackError as error:
            return Finding(name, False, str(error), error.hint_text)
        if found is None:
            return Finding(name, False, f"`{image}` is not built yet", f"takeback setup --image {image}")
        about = f"{found.name} {found.version}".rstrip() + f" at {found.rootfs}"
        return Finding(name, True, "; ".join([about, *found.notes]))

    def _overlay(self) -> Finding:
        name = "machines: disk"
        place = next(one for one in (self.machines.root, *self.machines.root.parents) if one.is_dir())
        if not os.access(place, os.W_OK):
            return Finding(name, False, f"{place} cannot be written", "set TAKEBACK_HOME to a folder of yours")
        problem = system.overlay_problem(place)
        if problem:
            return Finding(
                name, True, f"no overlay on {place} ({problem}): changed files are kept in memory, which is slower"
            )
        return Finding(name, True, "overlays work: copies share files")


def needs_linux() -> None:
    """Raises NeedsLinux anywhere else."""
    if system.name() != "Linux":
        raise NeedsLinux(system=system.name())


def _namespaces() -> Finding:
    name = "machines: namespaces"
    problem = system.namespace_problem()
    if problem:
        return Finding(name, False, f"a namespace of one's own is refused: {problem}", system.namespace_fix())
    who = "root" if system.is_root() else "this user (no newuidmap or /etc/subuid needed)"
    return Finding(name, True, f"{who} may make the namespaces that machines run in")


def _limits() -> Finding:
    name = "machines: limits"
    found = cgroups.find(f"takeback-trial-{os.getpid()}")
    # Not a fault: everything works, but what a keeper watches can be passed for a moment.
    watched = [found.lacking] if found.lacking else []
    if not found.usable:
        watched.append("a machine's memory is watched, and one over it ended")
    watched.append("changed files of machines are watched, and one over its disk paused")
    return Finding(name, True, "; ".join([f"the kernel bounds {found.described()}", *watched]))
