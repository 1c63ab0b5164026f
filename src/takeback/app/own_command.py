"""`takeback` itself as a child, for a face that has no streams and no main thread to lend to a step.

So a step is guarded, recorded and ended exactly as at the command line. Does not cover: what the command does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from takeback.host import process


class OwnCommand:
    """A running `takeback WORDS...`, which must have `--json` among them; what it writes beside that is dropped."""

    def __init__(self, words: Sequence[str]) -> None:
        # -P: a folder `takeback` in the project is not ours.
        argv = [sys.executable, "-P", "-m", "takeback", *words]
        with open(os.devnull, "wb") as null:
            # The step's own environment, so all of it.
            self._child = process.start(argv, env=os.environ, stderr=null)

    def finish(self) -> dict[str, Any]:
        """Wait for the end and return the document; an error is one too. Raises RuntimeError when there is none."""
        ended = self._child.finish()
        try:
            document = json.loads(ended.out)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise RuntimeError(f"takeback ended with {ended.code} and no document")
        return document

    def stop(self) -> None:
        """Ask it to end its step, record that, and end."""
        self._child.stop()

    def wait(self) -> None:
        """Wait until it has ended; another thread may be in `finish`."""
        self._child.wait()
