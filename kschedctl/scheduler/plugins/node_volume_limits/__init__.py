"""NodeVolumeLimits, and the plugins for in-tree disks of old versions.

`plugin` has NodeVolumeLimits and its queueing hints. `attachments` finds the volumes that are attached to each node and
the limits of nodes. `non_csi_limits` has the plugins for in-tree disks. Upstream: plugins/nodevolumelimits.
"""
