"""`kschedctl help`: Help on a command, or on a topic such as rights or ci.

Read `command`.
"""
