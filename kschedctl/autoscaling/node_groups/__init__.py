"""The node groups of the Cluster Autoscaler, as found in a cluster.

Read ``found`` first: it merges the sources ``status``, ``machines``, ``flags`` and ``members``.
"""
