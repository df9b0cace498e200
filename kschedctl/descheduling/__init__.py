"""A replay of the descheduler, which evicts pods from a cluster according to a policy.

Read `policy` and `arguments`, then `descheduler` for one round, `evictor` and `evictions` for what may be evicted, and
a plugin such as `duplicates`. Upstream: github.com/kubernetes-sigs/descheduler (v0.36, June 2026).
"""
