"""The plugin DynamicResources, with an exact copy of kube-scheduler's structured device allocator.

`plugin` has the plugin. `pre_filter` finds a pod's claims and prepares their `evaluation` on all nodes, for which
`allocator` searches devices in the `inventory`. `diagnosis` explains why a search failed, `claims` looks claims up,
`reservation` updates them, and `hints` has the queueing hints.
"""
