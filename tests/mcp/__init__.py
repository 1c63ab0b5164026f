"""The MCP server, through the SDK's own client and through real agents."""
