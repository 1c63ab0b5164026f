"""The keeper's log: stderr, which whoever started it pointed at keeper.log, and never larger than a few megabytes.

Does not cover: what is logged.
"""

from __future__ import annotations

import logging
import os

LARGEST = 2 << 20


class BoundedHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr and empties the file when it has grown too large; it is opened for appending."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self.shorten()

    def shorten(self) -> None:
        """Empty the file if it is too large."""
        fd = self.stream.fileno()
        try:
            if os.fstat(fd).st_size > LARGEST:
                os.ftruncate(fd, 0)
        except OSError:
            pass  # a terminal or a pipe


def set_up() -> None:
    """Send the logs of takeback and asyncio there."""
    handler = BoundedHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.shorten()
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
