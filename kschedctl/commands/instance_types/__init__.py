"""`kschedctl instance-types`: Print the instance types of a cluster's nodes, for --instance-types.

Read `command`.
"""
