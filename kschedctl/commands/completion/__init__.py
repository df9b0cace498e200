"""`kschedctl completion`: Print the completion script of a shell.

Read `command`.
"""
