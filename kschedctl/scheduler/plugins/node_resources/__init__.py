"""NodeResourcesFit and NodeResourcesBalancedAllocation: requests against what nodes offer.

`fit` has the former with its arguments, `hints` its queueing hints and `facts` its facts. `balanced_allocation` has the
latter.
"""
