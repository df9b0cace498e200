"""Rules that several plugins share, such as scoring by resources, signatures and storage lookups.

For the volume plugins, `volume_listers` finds storage objects by name and evaluates their node selectors,
`csi_migration` translates in-tree volumes, and `volume_hints` has the queueing hints.

Upstream: pkg/scheduler/framework/plugins/helper.
"""
