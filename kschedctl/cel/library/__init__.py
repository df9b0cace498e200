"""The functions that expressions can call: one file per library, each a table of signatures and implementations."""
