"""What becomes of pods: on which node each ends up, and what is said of those that wait, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.whatif.report import MessageChange, PodChange
from kschedctl.replay.settling import SettledCluster

Because = Mapping[str, tuple[str, ...]]
"""Pod -> why it does not fare as before, where that was asked."""


def pod_changes(before: SettledCluster, after: SettledCluster) -> Iterator[PodChange]:
    """Every pod that ends up elsewhere, by name."""
    then, now = _nodes(before.cluster), _nodes(after.cluster)
    for key in sorted(then.keys() | now.keys()):
        source, target = then.get(key), now.get(key)
        change = _change(source, target)
        if change:
            name = key.split("/", 1)
            pod = after.cluster.pods.find(*name) or before.cluster.pods.find(*name)
            assert pod is not None
            message = after.waiting.get(key, "") if not target else ""
            yield PodChange(key, str(find_owner(pod)), change, source or "", target or "", message)


def new_messages(before: SettledCluster, after: SettledCluster) -> dict[str, tuple[str, str]]:
    """The pods that wait in both and of which not the same is said -> what was, and what is."""
    pairs = ((pod, (then, after.waiting.get(pod, then))) for pod, then in sorted(before.waiting.items()))
    return {pod: pair for pod, pair in pairs if pair[0] != pair[1]}


def message_changes(messages: Mapping[str, tuple[str, str]], because: Because) -> Iterator[MessageChange]:
    """Messages of pods by what was said, what is and why; the most pods first."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for pod, pair in messages.items():
        groups.setdefault((*pair, because.get(pod, ())), []).append(pod)
    for (then, now, why), pods in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield MessageChange(then, now, tuple(pods), why)


def fates(settled: SettledCluster) -> dict[str, tuple[str, str]]:
    """Every pod -> its node, or none and what is said of it."""
    waiting = settled.waiting
    return {pod: (node, "" if node else waiting.get(pod, "")) for pod, node in _nodes(settled.cluster).items()}


def _change(source: str | None, target: str | None) -> str:
    """Nodes, empty for none; None where there is no such pod."""
    if source == target:
        return ""
    if source is None:
        return "Created" if target else "NewlyPending"
    if target is None:
        return "Gone"
    if source and target:
        return "Moved"
    return "NewlyPending" if source else "NewlyScheduled"


def _nodes(cluster: Cluster) -> dict[str, str]:
    """Pod -> its node."""
    return dict(zip(cluster.pods.keys(), cluster.pods.node.texts(), strict=True))
