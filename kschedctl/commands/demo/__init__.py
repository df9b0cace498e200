"""`kschedctl demo`: A short tour of the embedded demo cluster.

Read `command`.
"""
