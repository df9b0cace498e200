"""Rules about PriorityClasses, the workloads that use them, and preemption."""
