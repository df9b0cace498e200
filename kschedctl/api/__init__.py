"""Kubernetes objects as frozen structs, and the arithmetic of their fields.

Read `objects` (the structs) and `kinds` (all kinds that are read) first, then `labels`, `node_selector`, `tolerations`,
`quantity` and `pod_requests` (matching and amounts), `workloads` and `defaults` (the pods that controllers and the API
server make), `pod_table` (compact storage of many pods), and `validation`.
"""
