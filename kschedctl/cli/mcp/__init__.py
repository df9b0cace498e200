"""``kschedctl mcp``: the questions of the library as tools of the Model Context Protocol. Needs the extra ``mcp``."""
