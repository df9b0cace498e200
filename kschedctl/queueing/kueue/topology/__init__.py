"""Topology-aware scheduling: which domains of a data center the pods of a pod set are assigned to.

Read ``tree`` (the domains), ``snapshot`` (their free capacity), ``placement`` (the search) and ``balanced`` (a variant
of it that spreads pods evenly), in this order.
"""
