"""Replays of the systems that decide when a job's pods may be created, before kube-scheduler sees them."""
