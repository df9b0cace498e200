"""GangScheduling: the pods of a gang wait for each other, before the queue and before they are bound."""
