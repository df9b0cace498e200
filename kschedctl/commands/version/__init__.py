"""`kschedctl version`: Print the versions of kschedctl, of what it replays, and of the cluster.

Read `command`, then `report`, then `page`.
"""
