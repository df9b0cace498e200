"""The command `help`: print the help of a command, or a topic."""
