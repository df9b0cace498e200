"""The replay of changes to a cluster, which several commands share.

Read `shared_cluster` and `edits`, then the package `controllers` for what controllers make of a workload, then
`settling`, the package `scenarios`, and the package `waiting_elsewhere` for what never reaches the scheduler.
"""
