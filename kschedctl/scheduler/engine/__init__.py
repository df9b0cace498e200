"""The replay of one scheduling attempt, over any plugins.

In reading order: `cycle` (PreEnqueue to the choice of a node), `pre_filter`, `scoring`, `sampling` (the part of the
nodes that is searched), `extenders`, `reserve`, `permit`, `post_filter`, `preemption`, `pod_groups` and `messages`.
"""
