"""Fixes for a Workload that waits in Kueue, each verified by a replay of Kueue and, if possible, of kube-scheduler.

Read `search` first, then `changes` for what a fix changes, `trials` for the replay of a changed cluster, and the
modules that search for one kind of fix each: `quota`, `queue_objects` and `workload`.
"""
