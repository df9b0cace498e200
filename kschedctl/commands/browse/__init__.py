"""`kschedctl browse`: Explore pending pods, nodes and fixes in the terminal.

Read `command`, then `report`, then the analysis.
"""
