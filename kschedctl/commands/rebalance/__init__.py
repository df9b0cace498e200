"""`rebalance`: what would the descheduler evict, where to, and does that end?

Read `rounds`, then `replay` for the evictions of one round. The plugins are in `kschedctl/descheduling`.
"""

from __future__ import annotations

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.rebalance.report import Rebalancing
from kschedctl.commands.rebalance.rounds import replay_policy
from kschedctl.descheduling.policy import DEFAULT_POLICY, PROFILE_NAME, read_policy
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.sources.cluster import get_read_time


def rebalance(
    cluster: Cluster,
    policy: JsonObject | None = None,
    *,
    name: str = "policy",
    rounds: int = 10,
    seed: int = 0,
    now: str = "",
    progress: Progress = NO_PROGRESS,
) -> Rebalancing:
    """Find which pods the descheduler would evict, where they go, whether that ends, and which budgets stop it.

    `policy` is a DeschedulerPolicy of descheduler/v1alpha2 as a dict. The default is a built-in policy that restores
    what pods require. A plugin that is not replayed makes the answer undecided. `name` is the policy's name in errors.
    At most `rounds` rounds are replayed, each once all pods of the previous one run. `seed` decides between equally
    good nodes, and `now` is the time for the age of pods, by default when the cluster was read. Raises InputError for a
    policy that cannot be used.

    >>> import kschedctl
    >>> nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2")]
    >>> str(rebalance(kschedctl.Cluster.from_objects(nodes)))
    'Nothing is evicted'
    """
    if policy is None:
        parsed_policy = read_policy(DEFAULT_POLICY, name)
        name = PROFILE_NAME
    else:
        parsed_policy = read_policy(policy, name)
    time = now or get_read_time(cluster)
    return replay_policy(cluster, parsed_policy, name=name, rounds=rounds, seed=seed, now=time, progress=progress)
