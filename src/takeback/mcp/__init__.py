"""takeback as an MCP server over stdio, for agents that call tools: a thin face over `app`.

Does not cover: starting it (`cli.mcp`), or what a person alone may do: no tool approves, denies, pauses or forgets.
"""
