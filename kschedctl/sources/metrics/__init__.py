"""kube-scheduler's metrics: from /metrics, a saved text of it, or Prometheus."""
