"""An undo button for AI agents: exact, fast and itself undoable.

Types of results are in `takeback.model`, errors in `takeback.errors`; the common ones are here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from takeback._version import VERSION as __version__

if TYPE_CHECKING:
    from takeback.app import Project
    from takeback.errors import Conflict, NothingToDo, TakebackError
    from takeback.model import (
        Change,
        Checkpoint,
        CheckpointResult,
        Event,
        Finding,
        GcResult,
        NotCovered,
        RestoreResult,
        Status,
        StepResult,
        Usage,
    )
    from takeback.sandboxes import AsyncSandbox, CommandResult, Sandbox

__all__ = [
    "AsyncSandbox",
    "Change",
    "Checkpoint",
    "CheckpointResult",
    "CommandResult",
    "Conflict",
    "Event",
    "Finding",
    "GcResult",
    "NotCovered",
    "NothingToDo",
    "Project",
    "RestoreResult",
    "Sandbox",
    "Status",
    "StepResult",
    "TakebackError",
    "Usage",
    "__version__",
]
_HOMES = {
    "Project": "app",
    "Conflict": "errors",
    "NothingToDo": "errors",
    "TakebackError": "errors",
    "Sandbox": "sandboxes",
    "AsyncSandbox": "sandboxes",
    "CommandResult": "sandboxes",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that `takeback --version` and hooks start quickly.
    if name not in __all__:
        raise AttributeError(f"module 'takeback' has no attribute {name!r}")
    return getattr(importlib.import_module(f"takeback.{_HOMES.get(name, 'model')}"), name)
