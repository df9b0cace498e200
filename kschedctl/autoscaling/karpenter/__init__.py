"""A replay of Karpenter's provisioning and disruption on a snapshot of a cluster.

Read in this order:

- ``labels``, ``requirements``, ``amounts``, ``pods``, ``volumes`` and ``preferences``: the vocabulary.
- ``instance_types``, ``overlays``, ``node_classes``, ``templates`` and ``state_nodes``: nodes that can be launched and
  nodes that exist.
- ``pod_data``, ``existing_nodes``, ``claims``, ``topology`` and ``scheduler``: one scheduling run.
- ``setting``, ``provision`` and ``launching_pools``: provisioning.
- ``candidates``, ``disruption_budgets``, ``consolidation`` and ``disrupt``: disruption.
- ``new_node`` and ``nearest_miss``: the answer for one pod, and what a pool lacks to take it.
"""
