"""``watch``: how does the cluster schedule, as metrics for Prometheus?

Read ``cluster_metrics``, then ``serving``, which answers ``/metrics``.
"""
