"""Judge whether the kubelet would reject a new pod whose spec.nodeName bypasses the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.scheduler.framework import FilterPlugin, PluginError, PreFilterPlugin, Rejection, offers
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.plugins.node_affinity import REASON_ENFORCED, NodeAffinity
from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient, NodeResourcesFit
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

KUBELET_CHECKS = (NodeResourcesFit, NodeAffinity, NodePorts)
"""The plugins whose filters the kubelet runs again before it starts a pod."""


def find_kubelet_rejection(scheduler: Scheduler, framework: Framework | None, info: PodInfo) -> str:
    """Return why the kubelet of spec.nodeName would reject the pod, or "" if it would not or if this is not judged.

    A pod is judged only if it is new, a profile serves it, and its node exists. A pod is new if it has no uid, no
    creationTimestamp, and no phase other than Pending. A critical pod is not judged, since the kubelet would evict
    other pods for it. Upstream: predicateAdmitHandler in pkg/kubelet/lifecycle/predicate.go and AdmissionCheck in
    pkg/scheduler/schedule_one.go (v1.36).
    """
    pod = info.pod
    row = scheduler.view.nodes.index.get(pod.spec.node_name)
    is_stored = pod.metadata.uid or pod.metadata.creation_timestamp or pod.status.phase not in ("", "Pending")
    if framework is None or row is None or is_stored or _is_critical(pod):
        return ""
    view = scheduler.view
    position = view.pods.index.get(pod.key)
    if position is not None:  # a pod from the files counts as running on its node, which would take up its own room
        view = view.fork()
        view.forget(position)
    return "; ".join(dict.fromkeys(_iter_kubelet_rejections(view, framework, info, row)))


def _is_critical(pod: Pod) -> bool:
    """Return whether the kubelet would evict other pods to make room for the pod."""
    return (pod.spec.priority or 0) >= SYSTEM_CLASSES[0].value


def _iter_kubelet_rejections(view: Fork, framework: Framework, info: PodInfo, row: int) -> Iterator[str]:
    """Yield the reasons why the kubelet's checks reject the pod on the node at `row`.

    Checks that the profile does not run, and checks that fail with an error, are left out.
    """
    for plugin_class in KUBELET_CHECKS:
        plugin = framework.plugins.get(plugin_class.name)
        if plugin is None or not offers(plugin, FilterPlugin):
            continue
        try:
            state = plugin.pre_filter(info, view).state if offers(plugin, PreFilterPlugin) else None
            for rejection in plugin.filter(info, view, state, NO_CHANGE):
                if not rejection.mask[row]:
                    continue
                fact = rejection.fact(row) if rejection.fact else None
                if not _is_unknown_to_kubelet(rejection, fact):
                    description = fact.describe() if isinstance(fact, Fact) else fact
                    yield description or rejection.reason
        except PluginError:
            continue


def _is_unknown_to_kubelet(rejection: Rejection, fact: Fact | str | None) -> bool:
    """Return whether the scheduler rejects the pod for a reason that the kubelet does not check.

    The kubelet does not know the affinity that a profile adds, and ignores resources that its node lacks.
    """
    return rejection.reason == REASON_ENFORCED or _is_missing_resource(fact)


def _is_missing_resource(fact: Fact | str | None) -> bool:
    """Return whether the node offers none of an extended resource that the pod requests."""
    return isinstance(fact, Insufficient) and not fact.offered and "/" in fact.resource
