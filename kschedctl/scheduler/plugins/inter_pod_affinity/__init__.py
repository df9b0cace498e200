"""InterPodAffinity: affinity and anti-affinity between pods.

`plugin` has the plugin, `topology_counts` finds the pods that terms match and counts them per topology domain,
`filtering` (with the facts behind rejections) and `scoring` evaluate the counts, and `hints` has the queueing hints.
"""
