"""Pods that are placed together: what is known of a group, its cycle, its placements and its preemption."""
