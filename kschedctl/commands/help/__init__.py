"""`help`: the help of a command, or a topic."""
