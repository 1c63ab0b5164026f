"""The undo and redo algebra over events: no files, no processes, no clock."""

from takeback.timeline.algebra import RedoChoice, UndoChoice, choose_redo, choose_undo, redo_line
from takeback.timeline.codec import decode, decode_checkpoint, encode, encode_checkpoint
from takeback.timeline.fold import Done, DoneStatus, Mark, Scope, Timeline, fold

__all__ = [
    "Done",
    "DoneStatus",
    "Mark",
    "RedoChoice",
    "Scope",
    "Timeline",
    "UndoChoice",
    "choose_redo",
    "choose_undo",
    "decode",
    "decode_checkpoint",
    "encode",
    "encode_checkpoint",
    "fold",
    "redo_line",
]
