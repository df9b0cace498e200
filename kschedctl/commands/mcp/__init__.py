"""`mcp`: serve the questions to agents over the Model Context Protocol.

`tools` has the tools, `server` the protocol, `transports` the connections.
"""
