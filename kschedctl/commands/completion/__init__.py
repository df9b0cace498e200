"""`completion`: print the completion script of a shell."""
