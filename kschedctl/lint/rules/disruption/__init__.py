"""Disruption budgets, and whether nodes can be drained."""
