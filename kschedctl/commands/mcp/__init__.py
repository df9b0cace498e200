"""The command `mcp`: answer agents' questions over the Model Context Protocol.

`tools` has the tools, and `server` the protocol and the connections.
"""
