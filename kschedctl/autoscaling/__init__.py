"""Replays of autoscalers, which launch and remove nodes.

``growth`` has the interface that they share. ``cluster_autoscaler`` replays the Cluster Autoscaler on the node groups
that ``node_groups`` finds, and ``karpenter`` replays Karpenter.
"""
