"""`kschedctl watch`: How does the cluster schedule, as metrics for Prometheus?

Read `command`, then `report`, then the analysis, then `page`.
"""
