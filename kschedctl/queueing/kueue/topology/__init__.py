"""Topology-aware scheduling: which domains of a data center the pods of a pod set are assigned to.

Read ``tree`` (the domains), ``snapshot`` (their free capacity), ``placement`` (the search), ``domain_search`` (the
choice at one level) and ``balanced`` (a variant that spreads pods evenly), in this order.
"""
