"""Preemption for a single pod.

In reading order: `evaluator` (the plugins' base class), `dry_run`, `victims` (which pods may go), `candidates` (the
choice of a node), `budgets` (PodDisruptionBudgets) and `dry_run_per_node` (with cached results).
"""
