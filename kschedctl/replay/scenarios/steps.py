"""Scenario steps about nodes and pods: cordon, taint, label, add, remove, fail, scale, and launch by Karpenter.

Every step has the same signature, although only some need ``read``, which reads the files that the step names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import chain, count, islice

import msgspec

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodePool
from kschedctl.api.labels import EQUALS, validate_requirement
from kschedctl.api.node_health import NOT_READY_TAINT, OUT_OF_SERVICE_TAINT, UNREACHABLE_TAINT
from kschedctl.api.node_pools import find_node_pool_name
from kschedctl.api.objects import (
    Affinity,
    Node,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PriorityClass,
    SelectorRequirement,
    Taint,
)
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.priority import find_priority_class, validate_priority_class
from kschedctl.api.resource_names import PODS
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT, tolerates
from kschedctl.api.workloads import build_pending_pod
from kschedctl.autoscaling.karpenter.launching_pools import LaunchingPools
from kschedctl.cluster import Cluster, convert_document, flatten_lists
from kschedctl.errors import UsageError
from kschedctl.replay import edits as node_edits
from kschedctl.replay.controllers.creation import create_workload_objects
from kschedctl.replay.controllers.plan_change import rank_for_removal
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.stored_workloads import bound_replicas
from kschedctl.replay.controllers.workload_change import get_ordinal
from kschedctl.replay.controllers.workload_pod_counts import count_pods_wanted_by_job
from kschedctl.replay.controllers.workload_pods import build_stateful_set_like
from kschedctl.replay.edits import change_nodes, copy_resource_slice, find_pods_on_nodes, select_pods
from kschedctl.replay.scenarios import FileReader, StepResult, find_step_nodes
from kschedctl.reports import scenario as parts
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.text.counts import counted


def cordon_nodes(part: parts.SomeNodes, cluster: Cluster, read: FileReader) -> StepResult:
    """Cordon the nodes that the step names or selects. Raises UsageError if there are none."""
    return StepResult(node_edits.cordon_nodes(cluster, find_step_nodes(cluster, part)))


def uncordon_nodes(part: parts.SomeNodes, cluster: Cluster, read: FileReader) -> StepResult:
    """Uncordon the nodes that the step names or selects. Raises UsageError if there are none."""
    return StepResult(node_edits.uncordon_nodes(cluster, find_step_nodes(cluster, part)))


def label_nodes(part: parts.LabelNodes, cluster: Cluster, read: FileReader) -> StepResult:
    """Set and remove labels of the nodes. Raises UsageError for an invalid label, or if the step selects no nodes."""
    for key, value in part.labels.items():
        label_errors = validate_requirement(key, EQUALS, (value or "",))
        if label_errors:
            raise UsageError(f'labels: "{key}={value or ""}" is not a valid label')
    return StepResult(node_edits.set_node_labels(cluster, find_step_nodes(cluster, part), part.labels))


def taint_nodes(part: parts.TaintNodes, cluster: Cluster, read: FileReader) -> StepResult:
    """Add and remove taints of the nodes, and displace pods that do not tolerate a NoExecute taint forever.

    Raises UsageError for an unknown node, for a taint without an effect, or if there is no taint to add or remove.
    """
    if not (part.add or part.remove):
        raise UsageError("no taint to add or remove")
    if any(not taint.effect for taint in part.add):
        raise UsageError("a taint to add needs an effect", hint="NoSchedule, PreferNoSchedule or NoExecute")
    names = find_step_nodes(cluster, part)
    added = [Taint(taint.key, taint.value, taint.effect) for taint in part.add]
    removed = [Taint(taint.key, taint.value, taint.effect) for taint in part.remove]
    edit = StepResult(node_edits.change_node_taints(cluster, names, added, removed))
    for taint in added:
        if taint.effect == "NoExecute":
            edit.displace_pods(pod for pod in find_pods_on_nodes(cluster, names) if not _tolerates_forever(pod, taint))
    return edit


def _tolerates_forever(pod: Pod, no_execute: Taint) -> bool:
    """Return whether the pod may stay on a node with this NoExecute taint for any length of time.

    Static pods always may. Other pods need a toleration without tolerationSeconds.
    """
    if find_owner(pod).kind == "Node":
        return True
    return any(
        toleration.toleration_seconds is None and tolerates(toleration, no_execute)
        for toleration in pod.spec.tolerations
    )


def add_nodes(part: parts.AddNodes, cluster: Cluster, read: FileReader) -> StepResult:
    """Add nodes from a template, or like an existing node and with pods of the same DaemonSets.

    Raises UsageError unless exactly one of `like` and `template` is set, if the existing node is not found, or if a
    name is taken. Raises InputError if the template is invalid.
    """
    model_node = _get_node_to_copy(part, cluster)
    names = _generate_node_names(part, model_node, cluster)
    nodes = [_copy_node(model_node, name, part.labels) for name in names]
    if part.like:
        edit = _add_nodes_like_existing(nodes, model_node.metadata.name, cluster)
    else:
        edit = StepResult(cluster.with_objects({"Node": nodes}))
        edit.notes.append("DaemonSet pods are not added, since it is unknown which would run on the new nodes")
    if PODS not in model_node.status.allocatable:
        edit.notes.append("no pod fits, since status.allocatable lacks pods")
    return edit


def _generate_node_names(part: parts.AddNodes, model: Node, cluster: Cluster) -> list[str]:
    """Return names for the new nodes: the name in the step, or else the model node's name, with a number from 0 on.

    Raises UsageError if a name is taken.
    """
    prefix = part.name or model.metadata.name or "node"
    existing = {node.metadata.name for node in cluster.nodes}
    names = [f"{prefix}-{number}" for number in range(part.count)]
    for name in names:
        if name in existing:
            raise UsageError(f'node "{name}" already exists', hint="choose another name for the new nodes")
    return names


def _add_nodes_like_existing(nodes: Sequence[Node], model_name: str, cluster: Cluster) -> StepResult:
    """Add the nodes with the volume limits, devices and DaemonSet pods of the existing node.

    The DaemonSet pods run on the new nodes from the start: until a new node is ready, its not-ready taint keeps other
    pods away, but not DaemonSet pods.
    """
    names = [node.metadata.name for node in nodes]
    model_csi_nodes = [csi_node for csi_node in cluster.csi_nodes if csi_node.metadata.name == model_name]
    csi_nodes = [replace(csi_node, metadata=ObjectMeta(name)) for csi_node in model_csi_nodes for name in names]
    model_slices = [
        resource_slice for resource_slice in cluster.resource_slices if resource_slice.spec.node_name == model_name
    ]
    slices = [copy_resource_slice(resource_slice, name) for resource_slice in model_slices for name in names]
    edit = StepResult(cluster.with_objects({"Node": nodes, "CSINode": csi_nodes, "ResourceSlice": slices}))
    for pod in find_pods_on_nodes(cluster, [model_name]):
        if find_owner(pod).kind == "DaemonSet":
            for name in names:
                copied_pod = _copy_daemon_pod(pod, model_name, name)
                edit.change_pod(copied_pod, copied_pod)
    return edit


def _get_node_to_copy(part: parts.AddNodes, cluster: Cluster) -> Node:
    """Return the node that the new nodes copy: an existing node, or a node built from the template.

    Raises UsageError unless exactly one of ``like`` and ``template`` is given, or if the node does not exist. Raises
    InputError if the template is invalid.
    """
    if bool(part.like) == bool(part.template):
        raise UsageError("exactly one of like and template is needed")
    if part.template:
        node = convert_document({"kind": "Node", "metadata": {}, **part.template})
        assert isinstance(node, Node)
        return node
    (name,) = node_edits.find_node_names(cluster, (part.like,))
    return next(node for node in cluster.nodes if node.metadata.name == name)


def _copy_node(model: Node, name: str, labels: Mapping[str, str]) -> Node:
    """Return a ready, uncordoned copy of the model node with a new name and additional labels.

    Taints of the model's current state are left out, and so are its annotations and its provider ID.
    """
    meta = ObjectMeta(name, labels={**model.metadata.labels, HOSTNAME: name, **labels})
    temporary_taint_keys = (UNSCHEDULABLE_TAINT.key, NOT_READY_TAINT, UNREACHABLE_TAINT, OUT_OF_SERVICE_TAINT)
    taints = tuple(taint for taint in model.spec.taints if taint.key not in temporary_taint_keys)
    conditions = tuple(
        replace(condition, status="True") if condition.type == "Ready" else condition
        for condition in model.status.conditions
    )
    return replace(
        model,
        metadata=meta,
        spec=replace(model.spec, unschedulable=False, taints=taints, provider_id=""),
        status=replace(model.status, conditions=conditions),
    )


def _copy_daemon_pod(pod: Pod, source: str, node: str) -> Pod:
    """Return a copy, for ``node``, of a DaemonSet's pod that runs on the node ``source``."""
    copy = build_pending_pod(pod)
    meta = replace(copy.metadata, name=f"{pod.metadata.name}-{node}", uid="")
    spec = replace(copy.spec, node_name=node, affinity=_repin_affinity(copy.spec.affinity, source, node))
    return replace(copy, metadata=meta, spec=spec, status=replace(copy.status, phase="Running"))


def _repin_affinity(affinity: Affinity | None, source: str, node: str) -> Affinity | None:
    """Return the affinity of a DaemonSet's pod with ``node`` in place of ``source``, the node that it requires.

    None or an affinity without required node affinity is returned unchanged.
    """
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if affinity is None or node_affinity is None or required is None:
        return affinity
    terms = tuple(_repin_term(term, source, node) for term in required.node_selector_terms)
    selector = replace(required, node_selector_terms=terms)
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=selector)
    return replace(affinity, node_affinity=node_affinity)


def _repin_term(term: NodeSelectorTerm, source: str, node: str) -> NodeSelectorTerm:
    """Return the term with ``node`` in place of ``source`` in its field requirements."""

    def repin(field: SelectorRequirement) -> SelectorRequirement:
        """Return the requirement with another node name."""
        return replace(field, values=tuple(node if value == source else value for value in field.values or ()))

    return replace(term, match_fields=tuple(map(repin, term.match_fields)))


def remove_nodes(part: parts.SomeNodes, cluster: Cluster, read: FileReader) -> StepResult:
    """Remove the nodes that the step names or selects, and displace their pods. Raises UsageError if there are none."""
    return _remove_nodes_and_displace_pods(cluster, find_step_nodes(cluster, part))


def fail_nodes(part: parts.LostNodes, cluster: Cluster, read: FileReader) -> StepResult:
    """Remove nodes and displace their pods, as if the nodes had failed.

    The step may select nodes by zone, by pool, and by name or label. Raises UsageError if it uses none of these, or if
    one of these selects no nodes.
    """
    names: list[str] = []
    if part.zone:
        names += _find_nodes_in_group(cluster, "zone", part.zone, node_edits.get_zone)
    if part.pool:
        names += _find_nodes_in_group(cluster, "pool", part.pool, find_node_pool_name)
    if part.nodes or part.selector or not names:
        names += find_step_nodes(cluster, part)
    return _remove_nodes_and_displace_pods(cluster, names)


def _find_nodes_in_group(cluster: Cluster, kind: str, name: str, get_group: Callable[[Node], str]) -> list[str]:
    """Return the names of the nodes in the zone or pool of this name. Raises UsageError if there are none.

    ``get_group`` returns a node's zone or pool, and ``kind`` is the word for it.
    """
    groups = node_edits.group_nodes(cluster, get_group)
    if name not in groups:
        hint = f"existing {kind}s: {', '.join(groups)}" if groups else f"no node is in a {kind}"
        raise UsageError(f'no node is in {kind} "{name}"', hint=hint)
    return groups[name]


def _remove_nodes_and_displace_pods(cluster: Cluster, names: Collection[str]) -> StepResult:
    """Remove nodes by name and displace their pods."""
    removed = frozenset(names)
    edit = StepResult(change_nodes(cluster, lambda node: None if node.metadata.name in removed else node))
    edit.displace_pods(find_pods_on_nodes(cluster, removed))
    return edit


NO_LAUNCH = "the edit alone launches no nodes; add a step instanceTypes to let Karpenter launch some"


def edit_node_pool(part: parts.EditNodePool, cluster: Cluster, read: FileReader) -> StepResult:
    """Apply a merge patch to a NodePool's spec.

    Raises UsageError if the NodePool does not exist, and InputError if the result is invalid.
    """
    pools = {pool.metadata.name: pool for pool in cluster.karpenter_node_pools}
    if part.name not in pools:
        hint = f"existing NodePools: {', '.join(sorted(pools))}" if pools else "the cluster has no NodePools"
        raise UsageError(f'NodePool "{part.name}" not found', hint=hint)
    document = msgspec.to_builtins(pools[part.name])
    spec = _apply_merge_patch(document.get("spec", {}), part.spec)
    edited = convert_document({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **document, "spec": spec})
    assert isinstance(edited, NodePool)
    pools[part.name] = edited
    edit = StepResult(replace(cluster, karpenter_node_pools=tuple(pools.values())))
    edit.notes.append(NO_LAUNCH)
    return edit


def _apply_merge_patch(before: object, patch: object) -> object:
    """Return the document with a merge patch (RFC 7386) applied."""
    if not isinstance(patch, Mapping):
        return patch
    fields = dict(before) if isinstance(before, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = _apply_merge_patch(fields.get(name), value)
    return fields


def launch_nodes(part: parts.InstanceTypes, cluster: Cluster, read: FileReader) -> StepResult:
    """Let Karpenter launch nodes for the pending pods in one run, and add the nodes with their DaemonSet pods.

    The notes count the new nodes of each pool, and explain why the first few other pods get no node. Raises UsageError
    if there are no NodePools or instance types, and InputError if an instance type is invalid.
    """
    if not cluster.karpenter_node_pools:
        raise UsageError("the cluster has no Karpenter NodePools")
    types: list[JsonObject] = []
    for name in part.files:
        types += read(name)
    types += part.types
    if not types:
        raise UsageError(
            "instance types are needed", hint="name files with instance types, or list the types under types"
        )
    now = cluster.provenance.read_at if cluster.provenance else datetime.now(UTC).isoformat(timespec="seconds")

    launched = LaunchingPools(cluster, types, part.settings, now).grow_for_pending_pods(cluster)
    new_nodes = [node for nodes in launched.nodes.values() for node in nodes]
    edit = StepResult(cluster.with_objects({"Node": new_nodes}))
    for pod in launched.daemons:
        edit.change_pod(pod, pod)
    for pool, nodes in sorted(launched.nodes.items()):
        edit.notes.append(f"{pool} launches {counted(len(nodes), 'node')}")
    for pod_key, reason in sorted(launched.reasons.items())[: parts.EXPLAINED_UNPLACED]:
        edit.notes.append(f"{pod_key}: {reason}")
    return edit


def scale_workload(part: parts.ScaleWorkload, cluster: Cluster, read: FileReader) -> StepResult:
    """Scale a workload. New pods are copies of an existing pod.

    A StatefulSet removes the highest ordinals first, and its new pods get the claims of their ordinals. If new pods
    share other volume claims with the existing pods, a note says so. A Job runs no more pods than its completions
    allow. Raises UsageError if the workload has no pods, or if its kind has no replicas.
    """
    if part.kind in ("DaemonSet", "Pod"):
        raise UsageError(f"kind: a {part.kind} has no replicas")
    pods = _find_existing_pods(part, cluster)
    edit = StepResult(cluster)
    replicas = _limit_replicas_by_completions(part, edit)
    autoscaled = bound_replicas(cluster, Owner(part.kind, part.namespace, part.name), replicas)
    if autoscaled.note:
        edit.notes.append(f"{autoscaled.note}, which is not replayed")

    # Remove pods that are too many.
    ranked = sorted(pods, key=get_ordinal, reverse=True) if part.kind == "StatefulSet" else rank_for_removal(pods)
    for pod in ranked[: max(len(pods) - replicas, 0)]:
        edit.change_pod(pod, None)
    if replicas <= len(pods):
        return edit

    # Add pods that are missing.
    if part.kind == "StatefulSet":
        new_pods = _create_stateful_set_pods(part, pods, edit)
    else:
        new_pods = _copy_first_pod(part, pods, replicas - len(pods), cluster)
    for pod in new_pods:
        edit.change_pod(pod, pod)

    existing_claims = set(chain.from_iterable(map(_iter_claim_names, pods)))
    if existing_claims.intersection(chain.from_iterable(map(_iter_claim_names, new_pods))):
        edit.notes.append("the new pods share the volume claims of the existing pods")
    return edit


def _limit_replicas_by_completions(part: parts.ScaleWorkload, edit: StepResult) -> int:
    """Return how many of the wanted replicas run at the same time, and add a note if a Job's completions limit them."""
    jobs = edit.cluster.list_in_namespace("jobs", part.namespace) if part.kind == "Job" else ()
    job = next((job for job in jobs if job.metadata.name == part.name), None)
    if job is None:
        return part.replicas
    wanted = count_pods_wanted_by_job(replace(job, spec=replace(job.spec, parallelism=part.replicas)))
    if wanted < part.replicas:
        edit.notes.append(
            f"no more than {counted(wanted, 'pod')} at a time: the Job's completions leave no more to complete"
        )
    return wanted


def _create_stateful_set_pods(part: parts.ScaleWorkload, pods: Sequence[Pod], edit: StepResult) -> list[Pod]:
    """Create the pods with the missing ordinals of a StatefulSet, and add their new claims to the edit's cluster.

    Claims that are left from earlier pods of the same ordinals are used again, as by the controller. The edit also gets
    the StatefulSet and the assumptions about its pods.
    """
    cluster = edit.cluster
    owner = Owner(part.kind, part.namespace, part.name)
    first_ordinal = _find_first_ordinal(part, cluster)
    ordinals = range(first_ordinal, first_ordinal + part.replicas)
    edit.workload = build_stateful_set_like(cluster, owner, max(pods, key=get_ordinal), ordinals)
    creation = create_workload_objects(cluster, [edit.workload], include_denied=True)
    del creation.objects[part.kind]  # the StatefulSet itself is there already
    cluster = create_allowed_claims(cluster, creation, creation.pods)

    edit.cluster = creation.apply_to(cluster)
    edit.notes += creation.assumptions
    existing_names = {pod.metadata.name for pod in pods}
    missing_pods = [pod for pod in creation.pods[str(owner)] if pod.metadata.name not in existing_names]
    # Pods with ordinals beyond the range count as replicas too, so that not all missing ordinals may be needed
    return missing_pods[: part.replicas - len(pods)]


def _find_first_ordinal(part: parts.ScaleWorkload, cluster: Cluster) -> int:
    """Return the ordinal of a StatefulSet's first pod, which is 0 if the StatefulSet is not in the cluster."""
    for stateful_set in cluster.list_in_namespace("stateful_sets", part.namespace):
        if stateful_set.metadata.name == part.name:
            first_ordinal: int = stateful_set.spec.ordinals.start
            return first_ordinal
    return 0


def _copy_first_pod(part: parts.ScaleWorkload, pods: Sequence[Pod], number: int, cluster: Cluster) -> list[Pod]:
    """Return copies of a workload's first pod, with the current priority of its class and with names that are free."""
    model_pod, *_ = pods
    new_pod = node_edits.recreate_pod_with_current_priority(model_pod, cluster)
    existing_names = {pod.metadata.name for pod in pods}
    names = (f"{part.name}-more-{index}" for index in count())
    free_names = (name for name in names if name not in existing_names)
    return [_rename_pod(new_pod, name) for name in islice(free_names, number)]


def _iter_claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of the volume claims that the pod's volumes name."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            yield volume.persistent_volume_claim.claim_name


def _rename_pod(pod: Pod, name: str) -> Pod:
    """Return the pod with another name and UID."""
    meta = pod.metadata
    return replace(pod, metadata=replace(meta, name=name, uid=f"{meta.namespace}/{name}"))


def _suggest_workload(part: parts.NamedWorkload, cluster: Cluster) -> str:
    """Return a hint that names a workload with a similar name, or else says how to create the workload."""
    namespace, slash, name = part.name.partition("/")
    if slash:
        return f"write namespace: {namespace} and name: {name}"
    owners = {find_owner(pod) for pod in cluster.pods.templates}
    names = [owner.name for owner in owners if (owner.kind, owner.namespace) == (part.kind, part.namespace)]
    similar = get_close_matches(part.name, names, 1)
    return f"did you mean {similar[0]}?" if similar else "apply a manifest of the workload first"


def _find_existing_pods(part: parts.NamedWorkload, cluster: Cluster) -> list[Pod]:
    """Return the pods of a workload that are not being deleted. Raises UsageError if there are none."""
    if part.kind == "Pod":
        bare_pod = cluster.pod(part.namespace, part.name)
        pods = [bare_pod] if bare_pod else []
    else:
        owner = Owner(part.kind, part.namespace, part.name)
        pods = select_pods(cluster, lambda pod: find_owner(pod) == owner)
    pods = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    if not pods:
        problem = f"{part.kind} {part.namespace}/{part.name} has no pods"
        raise UsageError(problem, hint=_suggest_workload(part, cluster))
    return pods


def set_priority_class(part: parts.SetPriorityClass, cluster: Cluster, read: FileReader) -> StepResult:
    """Give the pods of workloads another PriorityClass, which is created if the step has a value for it.

    Raises UsageError if the class does not exist or is invalid, or if a workload has no pods.
    """
    if part.value is not None:
        new_class = PriorityClass(ObjectMeta(part.name), part.value, part.global_default, part.preemption_policy)
        problems = validate_priority_class(new_class)
        if problems:
            first_problem, *_ = problems
            raise UsageError(str(first_problem))
        cluster = cluster.with_objects({"PriorityClass": [new_class]})
    priority_class = find_priority_class(part.name, cluster.priority_classes)
    if priority_class is None:
        raise UsageError(f'PriorityClass "{part.name}" not found', hint="set a value to create it")

    edit = StepResult(cluster)
    policy = priority_class.preemption_policy or "PreemptLowerPriority"
    priority = priority_class.value
    for workload in part.workloads:
        for pod in _find_existing_pods(workload, cluster):
            spec = replace(pod.spec, priority_class_name=part.name, priority=priority, preemption_policy=policy)
            edit.change_pod(pod, replace(pod, spec=spec))
    return edit


def configure_scheduler(part: parts.Configure, cluster: Cluster, read: FileReader) -> StepResult:
    """Replace the scheduler's configuration. Running pods stay where they are.

    Raises UsageError unless the step has exactly one configuration, either inline or in a file with a single document.
    """
    if bool(part.file) == (part.configuration is not None):
        raise UsageError("exactly one of file and configuration is needed")
    documents = list(read(part.file)) if part.file else [part.configuration]
    if len(documents) != 1:
        hint = "the file must contain one KubeSchedulerConfiguration"
        raise UsageError(f"{part.file} has {len(documents)} documents", hint=hint)
    (configuration,) = documents
    return StepResult(replace(cluster, configuration=configuration))


def iter_manifests(part: parts.ApplyManifests, read: FileReader) -> Iterator[tuple[str, JsonObject]]:
    """Yield the manifests of an apply step, each with its place. Lists are flattened."""
    for name in part.files:
        for number, document in enumerate(read(name), 1):
            for manifest in flatten_lists((document,)):
                yield f"{name}: document {number}", manifest
    for index, document in enumerate(part.manifests):
        for manifest in flatten_lists((document,)):
            yield f"manifests[{index}]", manifest
