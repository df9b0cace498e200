"""The replay of the scheduling queue by full cycles, in which all pods are tried exactly as kube-scheduler tries them.

In reading order: `queue_run` (the run), `exact_search` (the node of a single pod) and `pod_groups`.
"""
