"""The replay of a pod's scheduling cycle with fixes applied.

Read `fix_kinds` and `changes`, which define fixes, then `trials`, which replays them. `trial_node` describes why a node
rejects the pod, and `guesses` infers what objects do not say.
"""
