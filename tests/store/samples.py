"""Events and checkpoints with everything in them that makes storing hard. The golden files hold exactly these."""

from __future__ import annotations

from dataclasses import replace

from takeback.model import Checkpoint, Event, EventKind, Kind

EVENTS = (
    Event(1, "", EventKind.ROOT, 1_700_000_000_000_000_000),
    Event(2, "c1", EventKind.CHECKPOINT, 1_700_000_001_000_000_000, "wt-1", text="before lunch"),
    Event(3, "", EventKind.PROMPT, 1_700_000_002_000_000_000, "wt-1", "A", text="déjà vu 漢字\nsecond line"),
    Event(
        4,
        "s1",
        EventKind.STEP,
        1_700_000_003_000_000_000,
        "wt-1",
        "A",
        "t:fix",
        "c1",
        text="rm \udcff\ud800",
        data={"pid": 4242, "start": "b00t:17", "named": [b"a b", b"\xff\xfe", b"$bytes"], "$bytes": "not bytes"},
    ),
    Event(
        5,
        "",
        EventKind.STEP_END,
        1_700_000_004_000_000_000,
        "wt-1",
        "A",
        "t:fix",
        after="c2",
        targets=("s1",),
        data={"exit": 137, "tail": "Killed\n", "odd": {"$text64": [None, True, 1.5, -(2**70), {"\udc80": b""}]}},
    ),
    Event(6, "r1", EventKind.RESTORE, 1_700_000_005_000_000_000, "wt-1", None, None, "c2", "c1", ("c1",)),
    Event(7, "u1", EventKind.UNDO, 1_700_000_006_000_000_000, "wt-1", "", "", "c1", "c3", ("r1", "s1")),
    Event(8, "y1", EventKind.REDO, 1_700_000_007_000_000_000, "wt\udce9", "B", None, "c3", "c2", ("s1", "r1")),
)

CHECKPOINTS = (
    Checkpoint(
        "c1", "0123456789abcdef" * 4, Kind.STATE, 1_700_000_001_000_000_000, "wt-1", b"/home/x/\xff", "one", files=7
    ),
    Checkpoint("c2", "fedcba98" * 5, Kind.FILES, 1_700_000_004_000_000_000, "wt-1", b"/p", "\ud800", "A", "t:fix", 9),
    Checkpoint("c10", "00000000" * 5, Kind.FILES, 5, "wt\udce9", b"/p q", only=(b"a b", b"\xff", b"")),
)


def event(text: str = "", kind: EventKind = EventKind.PROMPT, id: str = "") -> Event:
    """An event without a seq yet."""
    return replace(EVENTS[2], seq=0, text=text, kind=kind, id=id)


def checkpoint(number: int, worktree: str = "wt-1") -> Checkpoint:
    return replace(CHECKPOINTS[0], id=f"c{number}", worktree=worktree)
