"""The cluster as numpy columns with one row per node.

In reading order: `nodes`, `pod_info`, `pod_infos` and `pods` (the columns), `snapshot`, `changed_nodes`, `fork` (a copy
in which pods can be moved) with `trail`, `tallies`, `indexes` and `gang_history`, and `delta` (hypotheses).
"""
