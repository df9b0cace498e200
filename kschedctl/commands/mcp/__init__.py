"""The command `mcp`: answer agents' questions over the Model Context Protocol.

`tools` has the tools, `server` the protocol, and `transports` the connections.
"""
