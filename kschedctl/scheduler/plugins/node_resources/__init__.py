"""NodeResourcesFit and NodeResourcesBalancedAllocation: requests against what nodes offer.

`fit` has the former with its arguments and facts, and `hints` its queueing hints. `balanced_allocation` has the latter.
"""
