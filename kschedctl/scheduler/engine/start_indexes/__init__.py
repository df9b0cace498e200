"""The node that sampling chooses, for every index at which the search for nodes may begin."""
