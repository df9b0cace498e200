"""`version`: print the versions of kschedctl, of what it replays, and of the cluster."""
