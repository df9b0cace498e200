"""The replay of one scheduling attempt, over any plugins.

In reading order: `cycle` (PreEnqueue to the choice of a node), `scoring`, `sampling` (how many nodes are searched),
`start_indexes` (what sampling costs), `extenders`, `reserve`, `permit`, `diagnosis` (PostFilter and the message for a
pod that fits nowhere), `preemption` and `pod_groups`. `profile` has the protocols of what the engine reads.
"""
