"""The server: the official SDK, stdio, and what the agent is told about takeback.

Does not cover: the tools (`tools`).
"""

from __future__ import annotations

import os

from mcp.server.mcpserver import MCPServer

from takeback._version import VERSION
from takeback.mcp import tools

_INSTRUCTIONS = """\
takeback is an undo button for this project. It saves checkpoints outside the project and takes back exactly what one
step changed, in files, ignored files, index and refs, without asking a model. Undo is itself undoable: nothing is lost.
Use `run` for a command that may do damage, `undo` when a step went wrong, `log` to see the steps and their ids, and
`explain` to learn how far a command reaches before it runs. What leaves this machine may be held for a person: then go
on with other work, and say what is waiting.
"""


def build() -> MCPServer[None]:
    """Return the server with all its tools; it works on the project around the current directory."""
    server: MCPServer[None] = MCPServer(
        "takeback", title="takeback", instructions=_INSTRUCTIONS, version=VERSION, log_level="WARNING"
    )
    for tool in tools.ALL:
        server.add_tool(tool.function, annotations=tool.annotations)
    return server


def serve(project: str | None = None) -> None:
    """Serve on stdin and stdout until the client goes; in `project`, or else in the current directory.

    While it serves, file descriptors 0 and 1 lead elsewhere, so that no step can read or write the protocol.
    Raises OSError when `project` is no directory.
    """
    if project is not None:
        os.chdir(project)
    build().run("stdio")
