"""An undo button for AI agents: exact, fast and itself undoable.

Types of results are in `takeback.model`, errors in `takeback.errors`; the common ones are here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from takeback._version import VERSION as __version__

if TYPE_CHECKING:
    from takeback.app.project import Project
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
    from takeback.sandboxes import (
        AsyncSandbox,
        Chain,
        CommandResult,
        Exploration,
        Sandbox,
        Snapshots,
        Trial,
        explore,
        snapshots,
        try_in_copy,
    )

__all__ = [
    "AsyncSandbox",
    "Chain",
    "Change",
    "Checkpoint",
    "CheckpointResult",
    "CommandResult",
    "Conflict",
    "Event",
    "Exploration",
    "Finding",
    "GcResult",
    "NotCovered",
    "NothingToDo",
    "Project",
    "RestoreResult",
    "Sandbox",
    "Snapshots",
    "Status",
    "StepResult",
    "TakebackError",
    "Trial",
    "Usage",
    "__version__",
    "explore",
    "snapshots",
    "try_in_copy",
]
_HOMES = {
    "Project": "app.project",
    "Conflict": "errors",
    "NothingToDo": "errors",
    "TakebackError": "errors",
    "AsyncSandbox": "sandboxes",
    "Chain": "sandboxes",
    "CommandResult": "sandboxes",
    "Exploration": "sandboxes",
    "Sandbox": "sandboxes",
    "Snapshots": "sandboxes",
    "Trial": "sandboxes",
    "explore": "sandboxes",
    "snapshots": "sandboxes",
    "try_in_copy": "sandboxes",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that `takeback --version` and hooks start quickly.
    if name not in __all__:
        raise AttributeError(f"module 'takeback' has no attribute {name!r}")
    return getattr(importlib.import_module(f"takeback.{_HOMES.get(name, 'model')}"), name)
