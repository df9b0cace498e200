"""Scenario steps about nodes: cordon, taint, label, add, remove, fail, and launch by Karpenter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodePool
from kschedctl.api.labels import EQUALS, validate_requirement
from kschedctl.api.node_pools import find_pool
from kschedctl.api.objects import Affinity, Node, NodeSelectorTerm, ObjectMeta, Pod, SelectorRequirement, Taint
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import PODS
from kschedctl.api.tolerations import tolerates
from kschedctl.api.workloads import made_again
from kschedctl.autoscaling.karpenter.launching_pools import LaunchingPools
from kschedctl.cluster import Cluster, convert
from kschedctl.errors import UsageError
from kschedctl.replay import edits as node_edits
from kschedctl.replay.edits import change_nodes, pods_on
from kschedctl.replay.scenarios.scenario import Edit, Files, chosen_nodes
from kschedctl.reports import scenario as parts
from kschedctl.snapshot.node_order import HOSTNAME
from kschedctl.text.counts import counted


def cordon(part: parts.SomeNodes, cluster: Cluster, read: Files) -> Edit:
    return Edit(node_edits.cordon(cluster, chosen_nodes(cluster, part)))


def uncordon(part: parts.SomeNodes, cluster: Cluster, read: Files) -> Edit:
    return Edit(node_edits.uncordon(cluster, chosen_nodes(cluster, part)))


def label(part: parts.Label, cluster: Cluster, read: Files) -> Edit:
    """Raises UsageError for what is no label."""
    for key, value in part.labels.items():
        if validate_requirement(key, EQUALS, (value or "",)):
            raise UsageError(f'labels: "{key}={value or ""}" is no label')
    return Edit(node_edits.set_labels(cluster, chosen_nodes(cluster, part), part.labels))


def taint(part: parts.TaintNodes, cluster: Cluster, read: Files) -> Edit:
    """Pods that do not tolerate a NoExecute taint for good have to go."""
    if not (part.add or part.remove):
        raise UsageError("no taint to add or remove")
    if any(not t.effect for t in part.add):
        raise UsageError("a taint to add has an effect", hint="NoSchedule, PreferNoSchedule or NoExecute")
    names = chosen_nodes(cluster, part)
    added, removed = ([Taint(t.key, t.value, t.effect) for t in some] for some in (part.add, part.remove))
    edit = Edit(node_edits.taint(cluster, names, added, removed))
    for hard in (t for t in added if t.effect == "NoExecute"):
        edit.displace(pod for pod in pods_on(cluster, names) if not _stays(pod, hard))
    return edit


def _stays(pod: Pod, hard: Taint) -> bool:
    lasting = (t for t in pod.spec.tolerations if t.toleration_seconds is None)
    return find_owner(pod).kind == "Node" or any(tolerates(toleration, hard) for toleration in lasting)


def add_nodes(part: parts.AddNodes, cluster: Cluster, read: Files) -> Edit:
    """A node like another one gets pods of the same DaemonSets."""
    model = _model(part, cluster)
    names = _new_names(part, model, cluster)
    nodes = [_named(model, name, part.labels) for name in names]
    if part.like:
        edit = _alike(nodes, model.metadata.name, cluster)
    else:
        edit = Edit(cluster.with_objects({"Node": nodes}))
        edit.notes.append("pods of DaemonSets are not added: nobody knows which would run there")
    if PODS not in model.status.allocatable:
        edit.notes.append("status.allocatable has no pods: not one pod fits")
    return edit


def _new_names(part: parts.AddNodes, model: Node, cluster: Cluster) -> list[str]:
    """Raises UsageError where a node has one of them."""
    prefix = part.name or model.metadata.name or "node"
    known = {node.metadata.name for node in cluster.nodes}
    names = [f"{prefix}-{i}" for i in range(part.count)]
    if clash := next((name for name in names if name in known), None):
        raise UsageError(f'there is a node "{clash}" already', hint="give the new ones another name")
    return names


def _alike(nodes: Sequence[Node], like: str, cluster: Cluster) -> Edit:
    """With the new nodes what the node that they are like has: limits of volumes, and pods of DaemonSets."""
    names = [node.metadata.name for node in nodes]
    limits = [csi for csi in cluster.csi_nodes if csi.metadata.name == like]
    csi_nodes = [replace(csi, metadata=ObjectMeta(name)) for csi in limits for name in names]
    edit = Edit(cluster.with_objects({"Node": nodes, "CSINode": csi_nodes}))
    daemons = [pod for pod in pods_on(cluster, [like]) if find_owner(pod).kind == "DaemonSet"]
    for pod in (_daemon(pod, like, name) for pod in daemons for name in names):
        edit.change(pod, pod)
    return edit


def _model(part: parts.AddNodes, cluster: Cluster) -> Node:
    """Raises UsageError, InputError."""
    if bool(part.like) == bool(part.template):
        raise UsageError("either like or template says what the nodes are like")
    if part.template:
        node = convert({"kind": "Node", "metadata": {}, **part.template})
        assert isinstance(node, Node)
        return node
    (name,) = node_edits.find_nodes(cluster, (part.like,))
    return next(node for node in cluster.nodes if node.metadata.name == name)


def _named(model: Node, name: str, labels: Mapping[str, str]) -> Node:
    meta = ObjectMeta(name, labels={**model.metadata.labels, HOSTNAME: name, **labels})
    return replace(model, metadata=meta, spec=replace(model.spec, provider_id=""))


def _daemon(pod: Pod, source: str, node: str) -> Pod:
    again = made_again(pod)
    meta = replace(again.metadata, name=f"{pod.metadata.name}-{node}", uid="")
    affinity = again.spec.affinity
    return replace(again, metadata=meta, spec=replace(again.spec, affinity=_repinned(affinity, source, node)))


def _repinned(affinity: Affinity | None, source: str, node: str) -> Affinity | None:
    """Return the affinity of a DaemonSet's pod with ``node`` in place of ``source``, which it requires by name."""
    own = affinity.node_affinity if affinity else None
    required = own.required_during_scheduling_ignored_during_execution if own else None
    if affinity is None or own is None or required is None:
        return affinity
    terms = tuple(_other_name(term, source, node) for term in required.node_selector_terms)
    selector = replace(required, node_selector_terms=terms)
    own = replace(own, required_during_scheduling_ignored_during_execution=selector)
    return replace(affinity, node_affinity=own)


def _other_name(term: NodeSelectorTerm, source: str, node: str) -> NodeSelectorTerm:
    def other(field: SelectorRequirement) -> SelectorRequirement:
        return replace(field, values=tuple(node if value == source else value for value in field.values or ()))

    return replace(term, match_fields=tuple(map(other, term.match_fields)))


def remove_nodes(part: parts.SomeNodes, cluster: Cluster, read: Files) -> Edit:
    return _without(cluster, chosen_nodes(cluster, part))


def fail(part: parts.Lost, cluster: Cluster, read: Files) -> Edit:
    """Raises UsageError where there is no such zone or pool."""
    names: list[str] = []
    for wanted, what, group in ((part.zone, "zone", node_edits.get_zone), (part.pool, "pool", find_pool)):
        groups = node_edits.group_nodes(cluster, group) if wanted else {}
        if wanted and wanted not in groups:
            raise UsageError(f'no node is in {what} "{wanted}"', hint=f"there are: {', '.join(groups) or 'none'}")
        names += groups.get(wanted, [])
    if part.nodes or part.selector or not names:
        names += chosen_nodes(cluster, part)
    return _without(cluster, names)


def _without(cluster: Cluster, names: Collection[str]) -> Edit:
    gone = frozenset(names)
    edit = Edit(change_nodes(cluster, lambda node: None if node.metadata.name in gone else node))
    edit.displace(pods_on(cluster, gone))
    return edit


NO_LAUNCH = "the NodePool launches nothing by itself: a step instanceTypes lets Karpenter launch nodes"


def edit_node_pool(part: parts.EditNodePool, cluster: Cluster, read: Files) -> Edit:
    """A pool's spec with a merge patch. Raises UsageError for no such pool, InputError for an invalid one."""
    pools = {pool.metadata.name: pool for pool in cluster.karpenter_node_pools}
    if part.name not in pools:
        raise UsageError(f'there is no NodePool "{part.name}"', hint=f"there are {', '.join(sorted(pools)) or 'none'}")
    document = msgspec.to_builtins(pools[part.name])
    spec = _merged(document.get("spec", {}), part.spec)
    edited = convert({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **document, "spec": spec})
    assert isinstance(edited, NodePool)
    edit = Edit(replace(cluster, karpenter_node_pools=tuple({**pools, part.name: edited}.values())))
    edit.notes.append(NO_LAUNCH)
    return edit


def _merged(before: object, patch: object) -> object:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    fields = dict(before) if isinstance(before, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = _merged(fields.get(name), value)
    return fields


def launch(part: parts.InstanceTypes, cluster: Cluster, read: Files) -> Edit:
    """Karpenter's next run for the pods that wait, with the nodes up. Raises UsageError, InputError."""
    if not cluster.karpenter_node_pools:
        raise UsageError("the cluster has no NodePools of Karpenter")
    types: list[JsonObject] = [*(document for name in part.files for document in read(name)), *part.types]
    if not types:
        raise UsageError("files or types say which instance types there are")
    now = cluster.provenance.read_at if cluster.provenance else datetime.now(UTC).isoformat(timespec="seconds")
    new = LaunchingPools(cluster, types, part.settings, now).grow(cluster)
    edit = Edit(cluster.with_objects({"Node": [node for nodes in new.nodes.values() for node in nodes]}))
    for pod in new.daemons:
        edit.change(pod, pod)
    edit.notes += [f"{pool} launches {counted(len(nodes), 'node')}" for pool, nodes in sorted(new.nodes.items())]
    edit.notes += [f"{pod}: {why}" for pod, why in sorted(new.refused.items())[: parts.MOST_REFUSED]]
    return edit
