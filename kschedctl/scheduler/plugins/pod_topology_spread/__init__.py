"""PodTopologySpread: even spreading of similar pods over topology domains.

`plugin` has the plugin with its arguments and queueing hints, `constraints` resolves the pod's constraints and counts
pods per domain, `filtering` (with the facts behind rejections) and `scoring` evaluate the counts, and `alike_nodes`
scores nodes for many copies of a pod.
"""
