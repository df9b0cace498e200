"""Snapshots: a cluster in one compressed file.

Read `file` (header and whole snapshot) first, then `sections` (the objects of a kind) and `container` (the zip file).
"""
