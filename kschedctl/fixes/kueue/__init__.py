"""Fixes for a Workload that waits in Kueue, each verified by a replay of Kueue and, if possible, of kube-scheduler.

Read `search` first, which also finds changes of the Workload itself, then `changes` for what a fix changes, `trials`
for the replay of a changed cluster, and `quota` and `queue_objects`, which search for one kind of fix each.
"""
