"""The replay of kube-scheduler.

In reading order: `framework` (what a plugin is), `plugins` and `scheduler_plugins`, `in_tree_plugins` and
`third_party_plugins` (which plugins exist), `configuration`, `engine` (one scheduling attempt), `event_handling`,
`scheduler` (all of these for one cluster), `queueing`, and the two ways to run the queue: `simulation` and `queue_run`.
"""
