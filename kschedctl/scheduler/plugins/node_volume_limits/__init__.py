"""NodeVolumeLimits, and the plugins for in-tree disks of old versions.

`plugin` has NodeVolumeLimits, `attachments` counts the volumes that are attached to each node, `node_limits` reads
limits from nodes and has the facts, `hints` has the queueing hints. `non_csi_limits` has the plugins for in-tree disks,
which `in_tree` counts. Upstream: plugins/nodevolumelimits.
"""
