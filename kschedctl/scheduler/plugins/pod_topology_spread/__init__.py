"""PodTopologySpread: even spreading of similar pods over topology domains.

`plugin` has the plugin, `constraints` resolves the pod's constraints (with `default_selector` for the profile's),
`domains` counts pods per domain, `filtering` and `scoring` evaluate the counts, `hints` has the queueing hints,
`arguments` the arguments and `facts` the facts behind rejections.
"""
