"""kube-scheduler's metrics, read from /metrics, from saved text or from Prometheus."""
