"""Node groups that grow loop after loop. Each new node is like its group's template and becomes ready at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Condition, Node, Pod
from kschedctl.autoscaling.cluster_autoscaler.loop import AutoscalerLoop, copy_template
from kschedctl.autoscaling.cluster_autoscaler.new_node import NAME
from kschedctl.autoscaling.cluster_autoscaler.options import read_autoscaled_groups, read_autoscaler_options
from kschedctl.autoscaling.cluster_autoscaler.scale_up import ScaleUpRun, replay_scale_up, run_scale_up_loop
from kschedctl.autoscaling.cluster_autoscaler.templates import TEMPLATE_LABEL, NodeTemplate
from kschedctl.autoscaling.growth import NewNodes, mark_pod_unschedulable
from kschedctl.autoscaling.node_groups.discovery import NodeGroups
from kschedctl.cluster import Cluster
from kschedctl.reports.cluster_autoscaler import UNKNOWN_GROUP_LIMITS

READY = "Ready"
UNLIMITED = 10_000
"""The maximum size of a node group whose limit is ignored."""
LONG_AGO = "2000-01-01T00:00:00Z"


class GrowingGroups:
    """The Cluster Autoscaler's node groups, which grow as it requests nodes."""

    name = NAME

    def __init__(self, node_groups: NodeGroups, now: str, *, limited: bool = True) -> None:
        overridden_limit = {} if limited else {"max": UNLIMITED}
        self._groups: dict[str, JsonObject] = {
            str(group["id"]): {**group, **overridden_limit} for group in node_groups.groups
        }
        self._node_groups = node_groups
        self._now = now
        self._active = dict(node_groups.active_scale_ups)
        _, self._faults = read_autoscaler_options(node_groups.options)
        self.sources = node_groups.sources

    @property
    def doubts(self) -> tuple[str, ...]:
        """Descriptions of what is uncertain about the node groups and options, and of their invalid parts."""
        unknown = () if self._node_groups.limits_known else (UNKNOWN_GROUP_LIMITS,)
        faults = (*read_autoscaled_groups(self._node_groups.groups).errors, *self._faults)
        return (*unknown, *self._node_groups.doubts, *self._node_groups.faults, *faults)

    def explain_missing_nodes(self, cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
        """Return descriptions of the gaps in templates that keep pods from getting a node, by pod key.

        Only the templates of empty groups have such gaps. Pods that no gap affects are left out. Raises InputError if
        the cluster has a malformed object.
        """
        groups = list(self._groups.values())
        options = self._node_groups.options
        _run, report = replay_scale_up(_mark_waiting_pods_unschedulable(cluster), groups, options, now=self._now)
        causes: dict[str, tuple[str, ...]] = {}
        for gap in report.template_gaps:
            for pod in gap.pods:
                causes[pod] = (*causes.get(pod, ()), f"node group {gap.group}: {gap.sentence}")
        return causes

    def grow_for_pending_pods(self, cluster: Cluster) -> NewNodes:
        """Run one loop for all waiting pods. Return the new nodes, and why the other pods get no node.

        Later loops remember the new nodes. Raises InputError if the cluster has a malformed object.
        """
        marked = _mark_waiting_pods_unschedulable(cluster)
        groups = read_autoscaled_groups(list(self._groups.values()))
        flags, _faults = read_autoscaler_options(self._node_groups.options)
        run = run_scale_up_loop(AutoscalerLoop.from_cluster(marked, groups, flags, self._now, self._active))
        report = run.build_report()
        reasons = {key: remaining.message or report.error or "" for key, remaining in report.remaining.items()}
        return self.add_nodes(run, cluster)._replace(reasons=reasons)

    def add_nodes(self, run: ScaleUpRun, cluster: Cluster) -> NewNodes:
        """Create the nodes that a run adds to its groups, and keep them for later loops.

        The nodes of earlier scale-ups are assumed to exist from now on. The result does not say why other pods get no
        node.
        """
        self._active = {}  # the nodes of earlier scale-ups are assumed to exist by now
        nodes: dict[str, tuple[Node, ...]] = {}
        daemons: list[Pod] = []
        for increase in run.increases:
            group = increase.group.id
            template = run.loop.templates[group]
            new_nodes = list(_iter_new_nodes(template, group, cluster, increase.new_size - increase.size))
            nodes[group] = tuple(new_node.node for new_node in new_nodes)
            daemons += [pod for new_node in new_nodes for pod in new_node.pods]
            self._record_growth(group, increase.new_size, nodes[group])
        return NewNodes(nodes, tuple(daemons), reasons={})

    def _record_growth(self, group: str, target: int, nodes: tuple[Node, ...]) -> None:
        """Set the group's target size to ``target`` and add the nodes to its list of nodes."""
        document = self._groups[group]
        existing_names = document.get("nodes")
        names = list(existing_names) if isinstance(existing_names, list) else []
        names += [node.metadata.name for node in nodes]
        self._groups[group] = {**document, "target": target, "nodes": names}


def _mark_waiting_pods_unschedulable(cluster: Cluster) -> Cluster:
    """Return the cluster with all waiting pods marked as rejected by kube-scheduler long ago."""
    waiting = {
        (pod.metadata.namespace, pod.metadata.name): _mark_long_unschedulable(pod)
        for pod in cluster.unbound_pods()
        if not pod.terminated
    }
    return replace(cluster, pods=cluster.pods.apply_changes(waiting))


def _mark_long_unschedulable(pod: Pod) -> Pod:
    """Return the pod marked as rejected long ago, so that the autoscaler considers it without delay."""
    marked = mark_pod_unschedulable(pod)
    return replace(marked, metadata=replace(marked.metadata, creation_timestamp=LONG_AGO))


def _iter_new_nodes(template: NodeTemplate, group: str, cluster: Cluster, count: int) -> Iterator[NodeTemplate]:
    """Yield ``count`` ready nodes like the template, with their pods and with names that no node has yet."""
    existing_names = {node.metadata.name for node in cluster.nodes}
    candidates = (f"{group}-new-{number}" for number in range(1, len(existing_names) + count + 1))
    free_names = (name for name in candidates if name not in existing_names)
    for name in islice(free_names, count):
        node, pods = copy_template(template, name)
        labels = {key: value for key, value in node.metadata.labels.items() if key != TEMPLATE_LABEL}
        meta = replace(node.metadata, labels=labels)
        spec = replace(node.spec, provider_id="", unschedulable=False)
        other_conditions = (condition for condition in node.status.conditions if condition.type != READY)
        status = replace(node.status, conditions=(*other_conditions, _build_ready_condition()))
        yield NodeTemplate(replace(node, metadata=meta, spec=spec, status=status), pods)


def _build_ready_condition() -> Condition:
    """Build the condition Ready of a node that has been ready for a long time."""
    return Condition(READY, "True", last_transition_time=LONG_AGO)
