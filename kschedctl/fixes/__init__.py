"""The search for verified fixes, which the commands explain, remedies and browse share.

Read `search` and `proposals`, then the package `trial`, which replays a fix, then the package `ways`, which proposes
fixes. `ranking` and `queue_checks` judge what the search found, with `rollout_replay` (which runs rollouts by
`rollout_run`) and `queue_replay`, and `document` reports it. `new_node`, `node_groups` and `node_pools` are about
autoscalers.
"""
