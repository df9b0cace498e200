"""Scheduling of pod groups: their state, their cycle, their placements and their preemption."""
