"""HTTP extenders: what kube-scheduler asks them, and what it makes of their answers."""
