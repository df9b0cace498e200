"""The replay of the descheduler: which pods its policy evicts from a cluster.

Read `policy` and `arguments`, then `descheduler` for one round, `evictor` and `evictions` for what may be evicted, and
a plugin such as `duplicates`. Upstream: github.com/kubernetes-sigs/descheduler (v0.36, June 2026).
"""
