"""Affinity to other pods, and against them."""
