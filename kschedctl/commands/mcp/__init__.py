"""`kschedctl mcp`: Serve these questions to agents, by the Model Context Protocol.

Read `command`, then the analysis.
"""
