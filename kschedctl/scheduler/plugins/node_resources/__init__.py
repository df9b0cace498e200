"""NodeResourcesFit and NodeResourcesBalancedAllocation: requests against what nodes offer.

`fit` has the former, with its arguments in `fit_arguments`, its queueing hints in `hints` and its facts in `facts`.
`balanced_allocation` has the latter.
"""
