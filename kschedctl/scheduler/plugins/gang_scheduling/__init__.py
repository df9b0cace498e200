"""GangScheduling: pods of a gang wait for each other before they enter the queue and before they are bound.

`plugin` has the plugin, `trees` its rules for groups of groups.
"""
