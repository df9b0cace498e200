"""kube-scheduler's metrics, read from /metrics, from saved text or from Prometheus.

Read `catalogue` (all metrics and a reading of them) and `histograms` first, then `exposition` (the text of /metrics),
and `prometheus` with `http` (requests).
"""
