"""What must hold after a restore, an undo or a redo, said of pictures alone.

    start  the side of the step that is left      have == start  -> end
    end    the side that is wanted                have == end    -> nothing
    have   what was there                         else           -> merged text, or a conflict and nothing at all

Does not cover: what merged text is. Every function returns the problems it found, one line each.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tests.property.picture import Node, Picture, difference


@dataclass(frozen=True)
class Way:
    """One step's two sides, and how much of it may be taken: the paths that are its own, git state, ignored files."""

    start: Picture
    end: Picture
    mine: Callable[[bytes], bool]
    git: bool
    state: bool

    def paths(self) -> list[bytes]:
        """Paths this way changes, by value or time."""
        keys = self.start.tree.keys() | self.end.tree.keys()
        return sorted(p for p in keys if self.start.tree.get(p) != self.end.tree.get(p) and self.mine(p))

    def sure(self, path: bytes) -> bool:
        """Whether both sides must know of the path: ignored ones are only known with state."""
        if self.state:
            return True
        return not (self.start.is_ignored(path) or self.end.is_ignored(path)) and self.start.rules == self.end.rules


def _same(one: Node | None, two: Node | None) -> bool:
    return one == two or (one is not None and two is not None and one.value == two.value)


def _is_dir(node: Node | None) -> bool:
    return node is not None and node.is_dir


def _is_file(node: Node | None) -> bool:
    return node is not None and stat.S_ISREG(node.mode)


def after_change(way: Way, have: Picture, got: Picture, skipped: Collection[bytes], fresh: bool) -> list[str]:
    """Check an undo or redo that went through; `fresh`: changed files may have the present time."""
    problems: list[str] = []
    changed = {path for path in way.paths() if path not in skipped}
    made_for = {b"/".join(path.split(b"/")[:n]) for path in changed for n in range(1, path.count(b"/") + 1)}
    for path in sorted(have.tree.keys() | got.tree.keys() | changed):
        was, want = way.start.tree.get(path), way.end.tree.get(path)
        now, then = have.tree.get(path), got.tree.get(path)
        if path not in changed:
            if now != then and not (now is None and _is_dir(then) and path in made_for):
                problems.append(f"{path!r} is not the step's but went {now} -> {then}")
            continue
        gone = then is None and _same(now, was) and want is None  # what both sides' pictures have is not deleted
        if not way.sure(path) and (then in (now, want) or gone):
            continue
        if _is_dir(was) or _is_dir(want):
            problems += _folder(path, was, want, now, then, got)
        elif _same(was, want):
            wanted = want if now == was else now
            if then != wanted and not (fresh and _same(then, wanted)):
                problems.append(f"{path!r}: only its time was the step's; {now} -> {then}, not {wanted}")
        elif _same(now, was):
            if then != want and not (fresh and _same(then, want)):
                problems.append(f"{path!r} should be {want} but is {then} (was {now})")
        elif _same(now, want):
            if then != now:
                problems.append(f"{path!r} was back already but went {now} -> {then}")
        elif not (_is_file(was) and _is_file(want) and _is_file(now) and _is_file(then)):
            problems.append(f"{path!r} should have been a conflict: {was} -> {want}, now {now}, then {then}")
    return problems + _git_after_change(way, have, got, skipped)


def _folder(
    path: bytes, was: Node | None, want: Node | None, now: Node | None, then: Node | None, got: Picture
) -> list[str]:
    below = path + b"/"
    filled = any(one.startswith(below) for one in got.tree)
    if want is None:
        fits = then is None or (filled and then == now) or (not _is_dir(now) and then == now)
    elif _is_dir(was) and _is_dir(want):
        fits = then == (want if _same(now, was) else now)
    elif _is_dir(want):
        fits = then == want or (_is_dir(now) and then == now)
    else:
        fits = _same(then, want)
    return [] if fits else [f"folder {path!r} should be {want} but is {then} (step {was}, before {now})"]


def _git_after_change(way: Way, have: Picture, got: Picture, skipped: Collection[bytes]) -> list[str]:
    start, end = way.start, way.end
    if not way.git:
        start = end = have
    problems: list[str] = []
    for path in sorted(have.index.keys() | got.index.keys() | start.index.keys() | end.index.keys()):
        was, want, now = start.index.get(path), end.index.get(path), have.index.get(path)
        wanted = want if now == was and b"index: " + path not in skipped else now
        if got.index.get(path) != wanted:
            problems.append(f"index entry {path!r} should be {wanted} but is {got.index.get(path)} (was {now})")
    for name in sorted((have.refs.keys() | got.refs.keys() | start.refs.keys() | end.refs.keys()) - {"refs/stash"}):
        was2, want2, now2 = start.refs.get(name), end.refs.get(name), have.refs.get(name)
        wanted2 = want2 if now2 == was2 and name.encode() not in skipped else now2
        if got.refs.get(name) != wanted2:
            problems.append(f"{name} should be {wanted2} but is {got.refs.get(name)} (was {now2})")
    head = end.head if have.head == start.head and b"HEAD" not in skipped else have.head
    if got.head != head:
        problems.append(f"HEAD should be {head} but is {got.head}")
    stash = end.stash if have.stash == start.stash and b"refs/stash" not in skipped else have.stash
    if got.stash != stash:
        problems.append(f"the stash should be {stash} but is {got.stash}")
    if have.unfinished == start.unfinished and got.commit == end.commit:
        if got.unfinished != end.unfinished:
            problems.append(f"unfinished: {difference(end.unfinished, got.unfinished)}")
    elif got.unfinished != have.unfinished:
        problems.append(f"unfinished should be left alone: {difference(have.unfinished, got.unfinished)}")
    return problems


def reasons_for_conflict(way: Way, have: Picture) -> list[str]:
    """Return what may make an undo or redo refuse; none means it has to go through."""
    found: list[str] = []
    paths = way.paths()
    leaving = {path for path in paths if way.end.tree.get(path) is None}
    for path in paths:
        was, want, now = way.start.tree.get(path), way.end.tree.get(path), have.tree.get(path)
        if _same(was, want) or _same(now, was) or _same(now, want):
            if _is_dir(now) and want is not None and not want.is_dir:
                inside = {one for one in have.tree if one.startswith(path + b"/")} - leaving
                if inside:
                    found.append(f"{path!r} is a folder with {sorted(inside)[:3]}")
            continue
        if _is_dir(was) and want is None:
            continue  # stays if it is filled
        if not way.sure(path) and have.is_ignored(path):
            found.append(f"{path!r} is ignored, and may not have been seen")
        if _is_dir(now) and _is_dir(want) and not _is_dir(was):
            continue
        found.append(f"{path!r}: {was} -> {want}, now {now}")
    for path in paths:  # something that is no folder stands above what must come back
        if way.end.tree.get(path) is not None:
            for at in range(1, path.count(b"/") + 1):
                above = b"/".join(path.split(b"/")[:at])
                if above in have.tree and not _is_dir(have.tree[above]) and above not in paths:
                    found.append(f"{above!r} stands above {path!r}")
    if way.git:
        for path in way.start.index.keys() | way.end.index.keys():
            was2, want2, now2 = way.start.index.get(path), way.end.index.get(path), have.index.get(path)
            if was2 != want2 and now2 not in (was2, want2):
                found.append(f"index {path!r}")
            if was2 != want2 and want2 and any(_clash(path, other) for other in have.index):
                found.append(f"index {path!r} clashes")
        for name in way.start.refs.keys() | way.end.refs.keys():
            was3, want3, now3 = way.start.refs.get(name), way.end.refs.get(name), have.refs.get(name)
            if was3 != want3 and (now3 not in (was3, want3) or any(_clash_ref(name, other) for other in have.refs)):
                found.append(name)
        for what in ("head", "stash"):
            was4, want4, now4 = (getattr(one, what) for one in (way.start, way.end, have))
            if was4 != want4 and now4 not in (was4, want4):
                found.append(what)
    return found


def _clash(one: bytes, two: bytes) -> bool:
    return one.startswith(two + b"/") or two.startswith(one + b"/")


def _clash_ref(one: str, two: str) -> bool:
    return one.startswith(two + "/") or two.startswith(one + "/")


def after_restore(
    saved: Picture,
    have: Picture,
    got: Picture,
    *,
    state: bool,
    chosen: tuple[bytes, ...],
    told: tuple[bytes, ...],
    refs: bool,
    fresh: bool,
) -> list[str]:
    """Check a restore of the picture `saved` of the paths `chosen` (none: all).

    `told`: the paths that the checkpoint was told to look at; these it knows though they are ignored.
    """
    problems: list[str] = []
    made_for: set[bytes] = set()
    for path in sorted(saved.tree.keys() | have.tree.keys() | got.tree.keys()):
        want, now, then = saved.tree.get(path), have.tree.get(path), got.tree.get(path)
        if not selected(path, chosen):
            made_for = {p for p in saved.tree if selected(p, chosen) and p.startswith(path + b"/")}
            if now != then and not (now is None and _is_dir(then) and made_for):
                problems.append(f"{path!r} was not chosen but went {now} -> {then}")
        elif state:
            if then != want:
                problems.append(f"{path!r} should be {want} but is {then} (was {now})")
        elif told and not selected(path, told):
            pass  # as last seen, which need not be as it was
        elif path in told and not (_is_dir(want) or _is_dir(now)):
            if then != want and not (fresh and _same(then, want)):
                problems.append(f"{path!r} was named and should be {want} but is {then} (was {now})")
        elif want is not None and not saved.is_ignored(path):
            if then != want and not (fresh and _same(then, want)) and not (want.is_dir and then == now):
                problems.append(f"{path!r} should be {want} but is {then} (was {now})")
        elif path.startswith(b"nested") and then in (now, want):
            pass
        elif want is not None and now is not None and then is None:
            problems.append(f"{path!r} was there, though not seen, but went {now} -> {then}")
        elif now is not None and have.is_ignored(path) and then != now:
            problems.append(f"{path!r} is ignored, and not the checkpoint's, but went {now} -> {then}")
        elif want is None and now is not None and then is not None and not now.is_dir and saved.rules == have.rules:
            if not have.is_ignored(path):
                problems.append(f"{path!r} is newer and should be gone")
    for path in sorted(saved.index.keys() | have.index.keys() | got.index.keys()):
        wanted = (saved if selected(path, chosen) else have).index.get(path)
        if got.index.get(path) != wanted:
            problems.append(f"index entry {path!r} should be {wanted} but is {got.index.get(path)}")
    side = saved if refs and not chosen else have
    problems += difference(side.refs, got.refs)
    if (got.head, got.stash) != (side.head, side.stash):
        problems.append(f"HEAD and stash should be {side.head, side.stash} but are {got.head, got.stash}")
    unfinished = saved if not chosen and got.commit == saved.commit else have
    return problems + difference(unfinished.unfinished, got.unfinished)


def selected(path: bytes, chosen: tuple[bytes, ...]) -> bool:
    """Whether a path is one of `chosen` or below one."""
    return not chosen or any(path == one or path.startswith(one + b"/") for one in chosen)
