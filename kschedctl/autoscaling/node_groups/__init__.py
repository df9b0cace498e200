"""The node groups of the Cluster Autoscaler, read from the objects of a cluster.

Read ``discovery`` first: it merges the groups that ``status``, ``machines`` and ``flags`` read, and assigns nodes.
"""
