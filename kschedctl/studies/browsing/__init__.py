"""What one looks at while browsing a cluster: a node, a workload, and a pod as if something were otherwise."""
