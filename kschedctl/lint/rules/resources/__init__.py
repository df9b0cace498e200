"""Rules about requests, limits, quotas, and the room on nodes."""
