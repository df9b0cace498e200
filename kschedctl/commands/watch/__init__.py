"""The command `watch`: metrics of a cluster's scheduling for Prometheus.

Read `cluster_metrics`, then `openmetrics`, which renders the metrics and serves them at `/metrics`.
"""
