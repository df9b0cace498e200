"""Rules about what the API server rejects, now or in another version."""
