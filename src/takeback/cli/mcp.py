"""`takeback mcp`: the MCP server over stdio, for agents that call tools."""

from __future__ import annotations

import click

from takeback.cli import options
from takeback.cli.output import Face
from takeback.errors import ExtraMissing, NoProject

# What the extra brings; a module of ours that is missing is a fault of ours.
_PACKAGES = ("mcp", "mcp_types", "anyio", "pydantic")


@click.command(
    "mcp",
    cls=options.Command,
    short_help="Serve undo to agents as MCP tools, over stdio.",
    examples=[
        ("takeback mcp", "what the agent starts: claude mcp add takeback -- takeback mcp"),
        ("takeback mcp --project ~/site", "serve one project, wherever the agent runs"),
    ],
)
@options.speaking
def command(face: Face) -> int:
    """Serve explain, checkpoint, log, diff, undo, redo, restore, run and holds as tools of the Model Context Protocol.

    An agent starts this and talks to it over stdin and stdout; it ends when stdin does. It needs the extra `mcp`.
    """
    try:
        from takeback.mcp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise ExtraMissing(what="takeback mcp", package="mcp 2", extra="mcp") from error
    try:
        serve(face.project)
    except (FileNotFoundError, NotADirectoryError):
        raise NoProject(path=face.project or ".") from None
    return 0
