"""The command `watch`: metrics of a cluster's scheduling for Prometheus.

Read `cluster_metrics`, then `serving`, which answers `/metrics`.
"""
