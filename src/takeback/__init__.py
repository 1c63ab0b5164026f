"""An undo button for AI agents: exact, fast and itself undoable.

Types of results are in `takeback.model`, errors in `takeback.errors`; the common ones are here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from takeback._version import VERSION as __version__

if TYPE_CHECKING:
    from takeback.app.project import Project
    from takeback.errors import (
        CommandError,
        Conflict,
        ConflictError,
        InvalidRequestError,
        NotFoundError,
        NothingToDo,
        PermissionDeniedError,
        ServiceUnavailableError,
        TakebackError,
    )
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
        AsyncChain,
        AsyncRuntime,
        AsyncSandbox,
        AsyncSnapshots,
        Chain,
        CommandResult,
        Exploration,
        Runtime,
        Sandbox,
        Snapshots,
        Trial,
        explore,
        snapshots,
        try_in_copy,
    )

__all__ = [
    "AsyncChain",
    "AsyncRuntime",
    "AsyncSandbox",
    "AsyncSnapshots",
    "Chain",
    "Change",
    "Checkpoint",
    "CheckpointResult",
    "CommandError",
    "CommandResult",
    "Conflict",
    "ConflictError",
    "Event",
    "Exploration",
    "Finding",
    "GcResult",
    "InvalidRequestError",
    "NotCovered",
    "NotFoundError",
    "NothingToDo",
    "PermissionDeniedError",
    "Project",
    "RestoreResult",
    "Runtime",
    "Sandbox",
    "ServiceUnavailableError",
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
_ERRORS = (
    "CommandError", "Conflict", "ConflictError", "InvalidRequestError", "NotFoundError", "NothingToDo",
    "PermissionDeniedError", "ServiceUnavailableError", "TakebackError",
)  # fmt: skip
_SANDBOXES = (
    "AsyncChain", "AsyncRuntime", "AsyncSandbox", "AsyncSnapshots", "Chain", "CommandResult", "Exploration", "Runtime",
    "Sandbox", "Snapshots", "Trial", "explore", "snapshots", "try_in_copy",
)  # fmt: skip
_HOMES = {"Project": "app.project", **dict.fromkeys(_ERRORS, "errors"), **dict.fromkeys(_SANDBOXES, "sandboxes")}
# What programs of the hosted client may import beside: its names for two errors, the builtins' among them.
_ALSO = {
    "RuntimeError": "TakebackError", "RuntimeAPIError": "TakebackError",
    "ConnectionError": "KeeperGone", "RuntimeConnectionError": "KeeperGone",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that `takeback --version` and hooks start quickly.
    if name in _ALSO:
        return getattr(importlib.import_module("takeback.errors"), _ALSO[name])
    if name not in __all__:
        raise AttributeError(f"module 'takeback' has no attribute {name!r}")
    return getattr(importlib.import_module(f"takeback.{_HOMES.get(name, 'model')}"), name)
