"""InterPodAffinity: affinity and anti-affinity between pods.

`plugin` has the plugin, `terms` finds the pods that terms match, `topology_counts` counts them per topology domain,
`filtering` and `scoring` evaluate the counts, `hints` has the queueing hints and `facts` the facts behind rejections.
"""
