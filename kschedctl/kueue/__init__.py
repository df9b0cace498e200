"""A replay of Kueue: which Workloads get quota, in which flavors, and what the others wait for.

Read ``replay`` first: it runs admission cycles on a cluster and reports every change. A cycle is in ``scheduler``; it
asks ``flavor_assignment`` for flavors, ``preemption`` for Workloads to preempt, and ``topology`` for a placement.
Quotas and the shares of fair sharing are in ``quota_tree``. Between two cycles ``workload_controller``
reacts to the changes. ``managed_jobs`` says which jobs Kueue manages, ``integrations`` and ``pod_groups`` make their
Workloads, and ``installation`` finds the release and the Configuration of Kueue.

Upstream: the development branch of kubernetes-sigs/kueue after release 0.19.
"""
