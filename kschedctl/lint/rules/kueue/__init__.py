"""Rules about Kueue: references between its objects, quota compared with nodes, and Workloads that it never admits."""
