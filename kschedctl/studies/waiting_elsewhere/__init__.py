"""What waits before kube-scheduler sees a pod of it, as the objects' statuses and simple arithmetic tell.

``find`` collects it all. A module for each that decides: ``kueue`` (Workloads without quota), ``volcano`` (PodGroups
that its queues have not let in), ``gangs`` (PodGroups of scheduler-plugins and of Kubernetes without enough pods),
``suspended_jobs``, and ``operators`` (custom resources whose operators create pods). ``amounts`` has the arithmetic.
No queue is replayed here.
"""
