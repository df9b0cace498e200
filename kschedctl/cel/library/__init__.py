"""The functions that expressions can call: one file a library, each a table of signatures and implementations."""
