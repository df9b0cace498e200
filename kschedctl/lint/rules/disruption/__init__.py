"""Rules about PodDisruptionBudgets, drains, and annotations that protect pods and nodes."""
