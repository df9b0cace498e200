"""A replay of the Cluster Autoscaler's loops on a snapshot of a cluster.

Read in this order:

- ``options``, ``nodes`` and ``pods``: the input, and how the autoscaler sees it.
- ``templates``, ``cluster_snapshot`` and ``loop``: the state at the start of a loop.
- ``scale_up``, with ``estimator`` and ``expanders``: the groups that grow.
- ``scale_down``, with ``drainability`` and ``removal``: the nodes that are removed.
- ``new_node``, ``template_gaps`` and ``growing_groups``: the answer for one pod, why empty groups do not grow, and
  repeated loops.
"""
