"""The commands, each in a folder of its own.

Read `table` first: it lists the commands. A command uses only commands that stand below it in the table.
"""
