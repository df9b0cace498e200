"""The scheduling queue and the loop over its pods, however time passes.

In reading order: `queue_order`, `backoff_queue` and `scheduling_queue` (where pods wait), `queue_plugins` (what plugins
say about events), `pods_on_nodes`, `waiting_pods` (pods at Permit) and `scheduling_loop`.
"""
