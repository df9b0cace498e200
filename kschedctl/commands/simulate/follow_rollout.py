"""The library function ``follow_rollout``."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate.following import rollout
from kschedctl.commands.simulate.following_report import FollowedRollout
from kschedctl.commands.simulate.rollout_events import parse_placements
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom


def follow_rollout(
    cluster: Cluster,
    events: Iterable[JsonObject],
    manifests: Iterable[JsonObject | Struct] = (),
    *,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    where: str = "",
    progress: Progress = NO_PROGRESS,
) -> FollowedRollout:
    """Find where kube-scheduler chose differently in a real rollout, and why. Every pod is tried when it was really
    scheduled.

    ``events`` are its Scheduled events, or Bindings, as kubectl prints them (dicts). The cluster is that before or
    after the rollout, and ``manifests`` are applied to it first. With ``sampling`` the scheduler looks at as many nodes
    as it really would. ``where`` names the source of the events in errors.

    Raises InputError, also if there is no Scheduled event, and ConfigurationError.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> cluster = kschedctl.Cluster.from_objects([node, pod])
    >>> metadata = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}
    >>> bound = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n1"}}
    >>> str(follow_rollout(cluster, [bound]))
    'As replayed: 1 of 1 pod went to a node that the replay has among the best'
    """
    placements = parse_placements(events, where)
    done = progress.begin("Following", len(placements))
    return rollout.follow_rollout(
        cluster, placements, manifests, sampling=sampling, call_extender=call_extender, done=done
    )
