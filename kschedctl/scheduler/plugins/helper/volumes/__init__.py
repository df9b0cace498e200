"""Storage objects as the volume plugins see them.

`listers` finds objects by name and evaluates their node selectors, `csi_migration` translates in-tree volumes, and
`hints` has the queueing hints.
"""
