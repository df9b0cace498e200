"""What the descheduler would evict from a cluster, as its policy has it.

Upstream: github.com/kubernetes-sigs/descheduler (v0.36, June 2026).
"""
