"""An undo button for AI agents: exact, fast and itself undoable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback._version import VERSION as __version__

if TYPE_CHECKING:
    from takeback.app import Project
    from takeback.errors import TakebackError

__all__ = ["Project", "TakebackError", "__version__"]


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that `takeback --version` and hooks start quickly.
    if name == "Project":
        from takeback.app import Project

        return Project
    if name == "TakebackError":
        from takeback.errors import TakebackError

        return TakebackError
    raise AttributeError(f"module 'takeback' has no attribute {name!r}")
