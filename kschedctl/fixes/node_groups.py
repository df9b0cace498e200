"""Fixes of the Cluster Autoscaler's node groups: a higher maximum, or a label or resource missing from a template.

The autoscaler knows the nodes of an empty group only by its template. A template that lacks what a pod asks for is
corrected before the pod asks for less.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject, object_at, objects_at, text_at
from kschedctl.api.machines import MachinePool, MachineTemplateOwner
from kschedctl.api.objects import Pod, Taint
from kschedctl.api.pod_requests import compute_pod_requests
from kschedctl.api.resource_names import is_extended
from kschedctl.autoscaling.node_groups.machines import CLUSTER_API, OPENSHIFT
from kschedctl.cluster import Cluster
from kschedctl.fixes.trial.fix_kinds import PoolFixKind, Price
from kschedctl.fixes.trial.guesses import find_device_hint, find_image_platform
from kschedctl.fixes.ways.node_affinity import find_required_terms
from kschedctl.reports.new_node import NewNode, PoolVerdict
from kschedctl.reports.remedy import Remedy
from kschedctl.text.counts import agreeing

MOST_TRIED = 3
"""The most changes that are replayed; each replay is a whole loop of the autoscaler."""
KUBERNETES = ("kubernetes.io", "k8s.io")
"""Domains of labels that describe a node; labels of other domains give it a role."""
TEMPLATE_TAG = "k8s.io/cluster-autoscaler/node-template"
MAX_SIZE = "cluster-api-autoscaler-node-group-max-size"
Replay = Callable[[Sequence[JsonObject]], NewNode]
"""Returns the autoscaler's answer for the pod with other node groups."""


class GroupChange(NamedTuple):
    """A change of a node group."""

    fields: JsonObject
    """The changed fields of the group."""
    summary: str
    """The change in words."""
    price: Price
    tags: tuple[str, ...] = ()
    """The tags to add where the group is defined."""
    maximum: str = ""
    """The new maximum size, empty if it stays."""


def find_node_group_fixes(
    cluster: Cluster, pod: Pod, groups: Sequence[JsonObject], current_answer: NewNode, replay: Replay
) -> tuple[Remedy, ...]:
    """Return changes to node groups after which the replayed autoscaler would add a node for the pod.

    At most MOST_TRIED changes are replayed. If some of them raise a maximum or are about a group that resembles the
    pod's request, only these are replayed. `current_answer` is the answer for the unchanged groups. The result is empty
    if the pod gets a node without changes.
    """
    if current_answer.would_launch or current_answer.existing_node:
        return ()
    verdicts = {pool.pool: pool for pool in current_answer.pools}
    fixes = [_GroupFix(group, change) for group in groups for change in _iter_group_changes(group, pod, verdicts)]
    # Prefer groups that need no guess or that look as if they were meant for the pod.
    matching_fixes = [fix for fix in fixes if fix.change.maximum or does_group_resemble_pod_request(pod, fix.group)]
    tried_fixes = (matching_fixes or fixes)[:MOST_TRIED]
    return tuple(fix.build_remedy(cluster) for fix in tried_fixes if fix.helps(groups, replay))


class _GroupFix:
    """A node group with one change applied."""

    def __init__(self, group: JsonObject, change: GroupChange) -> None:
        self.id = str(group["id"])
        self.group = group
        self.change = change
        self.changed_group = {**group, **change.fields}

    def helps(self, groups: Sequence[JsonObject], replay: Replay) -> bool:
        """Return whether the changed group would grow for the pod."""
        after = replay([self.changed_group if group is self.group else group for group in groups])
        return any(pool.pool == self.id and pool.takes for pool in after.pools)

    def build_remedy(self, cluster: Cluster) -> Remedy:
        """Build the remedy for this change, with its commands.

        If no command changes the group, a comment says what to change where the group is defined.
        """
        change = self.change
        command = _find_max_size_command(cluster, self.id, change.maximum) if change.maximum else None
        if command is None:
            if change.tags:
                instruction = f"add the {agreeing(len(change.tags), 'tag', 'tags')} {', '.join(change.tags)}"
            else:
                instruction = f"{change.summary[0].lower()}{change.summary[1:]}"
            command = f"# in the definition of node group {self.id}: {instruction}"
        return Remedy(
            summary=change.summary,
            by="operator",
            weakens=None,
            opens=(f"a new node of {self.id}",),
            commands=(command,),
            changes=(),
            kinds=(PoolFixKind.CHANGE_NODE_GROUP.value,),
            step=change.price.name.lower(),
        )


def _iter_group_changes(group: JsonObject, pod: Pod, verdicts: Mapping[str, PoolVerdict]) -> Iterator[GroupChange]:
    """Yield changes of a group, each of which may be enough for the pod: a higher maximum, or a completed template.

    `verdicts` maps group ids to what the autoscaler said about the groups. The maximum is only raised if it is reached
    and a new node of the group would help the pod.
    """
    group_id = str(group["id"])
    verdict = verdicts.get(group_id, PoolVerdict(group_id, takes=False, answer=""))
    target = int(str(group.get("target") or 0))
    max_size = int(str(group.get("max") or 0))
    if target >= max_size and verdict.would_take:
        new_max = target + 1
        summary = f"Raise the maximum of node group {group_id} from {max_size:,} to {new_max:,}"
        yield GroupChange({"max": new_max}, summary, Price.ROOM, maximum=str(new_max))
    template = group.get("template")
    if isinstance(template, dict):
        yield from _iter_template_completions(group_id, template, pod)


def _iter_template_completions(group_id: str, template: JsonObject, pod: Pod) -> Iterator[GroupChange]:
    """Yield changes that complete the template with the labels and extended resources that the pod requires.

    There is one change for each required node affinity term. A term is left out if it needs a label that Kubernetes
    defines, or that the template has with another value. Nothing is yielded if the template's platform differs from
    that of the pod's image, or if nothing indicates that the group's machines have the requested devices.
    """
    labels = {key: str(value) for key, value in object_at(object_at(template, "metadata"), "labels").items()}
    platform = find_image_platform(pod)
    has_other_platform = any(labels.get(key, value) != value for key, value in platform.items())
    if has_other_platform:
        return
    devices = _find_missing_extended_resources(group_id, template, labels, pod)
    if devices is None:
        return  # the group's machines may not have the devices
    for missing_labels in _iter_missing_labels(labels, pod):
        if missing_labels or devices:
            changed = _replace_labels_and_add_devices(template, {**labels, **missing_labels}, devices)
            tags = [f"{TEMPLATE_TAG}/label/{key}={value}" for key, value in missing_labels.items()]
            tags += [f"{TEMPLATE_TAG}/resources/{name}={amount}" for name, amount in devices.items()]
            summary = _describe_template_additions(group_id, missing_labels, devices)
            yield GroupChange({"template": changed}, summary, Price.CORRECTION, tuple(tags))


def _replace_labels_and_add_devices(
    template: JsonObject, labels: Mapping[str, str], devices: Mapping[str, str]
) -> JsonObject:
    """Return the template with its labels replaced, and with the devices added to its allocatable and capacity."""
    metadata = {**object_at(template, "metadata"), "labels": dict(labels)}
    status = dict(object_at(template, "status"))
    for key in ("allocatable", "capacity"):
        if key in status:
            status[key] = {**object_at(status, key), **devices}
    return {**template, "metadata": metadata, "status": status}


def _describe_template_additions(group_id: str, labels: Mapping[str, str], devices: Mapping[str, str]) -> str:
    """Describe the change that adds labels and devices to the template of the node group, as an instruction."""
    additions = [f"label {key}={value}" for key, value in labels.items()]
    additions += [f"resource {name}={amount}" for name, amount in devices.items()]
    tag_noun, pronoun = ("tag", "it") if len(additions) == 1 else ("tags", "them")
    instruction = f"Add the node-template {tag_noun} for {' and '.join(additions)} to node group {group_id}"
    return f"{instruction}, whose template lacks {pronoun}"


def _iter_missing_labels(labels: Mapping[str, str], pod: Pod) -> Iterator[dict[str, str]]:
    """Yield the labels to add to the template so that it matches nodeSelector and one required node affinity term.

    There is one mapping for each term. A term is left out if it accepts no value of a label. It is also left out if the
    template has a label with another value, or lacks a label that Kubernetes defines.
    """
    for required_labels in iter_required_node_labels(pod):
        missing = {key: values for key, values in required_labels.items() if labels.get(key) not in values}
        # A label with another value, or one that Kubernetes sets itself, cannot be added to the template.
        can_be_added = all(key not in labels and not is_kubernetes_label(key) for key in missing)
        have_values = all(missing.values())
        if can_be_added and have_values:
            yield {key: values[0] for key, values in missing.items()}


def iter_required_node_labels(pod: Pod) -> Iterator[dict[str, tuple[str, ...]]]:
    """Yield the node labels that the pod requires, with their accepted values, once for each node affinity term.

    Each mapping contains the labels of nodeSelector and of one term. A pod without terms has a single mapping. If
    several of these conditions are on one key, only the values that satisfy all of them are accepted, possibly none.
    Terms with operators other than In or with match fields are left out.
    """
    selector_labels: dict[str, tuple[str, ...]] = {key: (value,) for key, value in pod.spec.node_selector.items()}
    terms = find_required_terms(pod)
    if not terms:
        yield selector_labels
    for term in terms:
        expressions = term.match_expressions
        if not term.match_fields and all(expression.operator == "In" for expression in expressions):
            required_labels = dict(selector_labels)
            for expression in expressions:
                accepted_values = tuple(expression.values or ())
                # A label has to satisfy nodeSelector and every expression on its key
                required_labels[expression.key] = tuple(
                    value for value in required_labels.get(expression.key, accepted_values) if value in accepted_values
                )
            yield required_labels


def is_kubernetes_label(key: str) -> bool:
    """Return whether the prefix of the label is one of Kubernetes' domains, such as node.kubernetes.io."""
    return key.partition("/")[0].endswith(KUBERNETES)


def _find_missing_extended_resources(
    group_id: str, template: JsonObject, labels: Mapping[str, str], pod: Pod
) -> dict[str, str] | None:
    """Return the amounts of the requested extended resources that the template lacks.

    Return None unless there is a hint, for each of these resources, that the group's machines have it. A hint is a
    label or taint of the template, or a word in the group's id.
    """
    offered = object_at(object_at(template, "status"), "allocatable")
    requests = {name: amount.value() for name, amount in compute_pod_requests(pod).items() if is_extended(name)}
    missing = {name: str(amount) for name, amount in requests.items() if amount and name not in offered}
    taints = [
        Taint(text_at(taint, "key"), text_at(taint, "value"), text_at(taint, "effect"))
        for taint in objects_at(template, "spec", "taints")
    ]
    labels_and_id = {**labels, "id": group_id}  # the words of the id count like the words of a label
    has_hint_for_each = all(find_device_hint(name, labels_and_id, taints) for name in missing)
    return missing if has_hint_for_each else None


def does_group_resemble_pod_request(pod: Pod, group: JsonObject) -> bool:
    """Return whether the group's id, labels or taints resemble the labels and devices that the pod needs.

    They resemble each other if a word of the group contains a word of the pod, or the other way round.
    """
    template = object_at(group, "template")
    labels = object_at(object_at(template, "metadata"), "labels")
    taints = objects_at(template, "spec", "taints")
    group_words = [str(group["id"]), *map(str, labels.values()), *(text_at(taint, "value") for taint in taints)]

    pod_words: list[str] = []
    for required_labels in iter_required_node_labels(pod):
        for values in required_labels.values():
            pod_words += values
    pod_words += [name.rpartition("/")[2] for name in compute_pod_requests(pod) if is_extended(name)]
    pod_words = [word for word in pod_words if len(word) > 1]  # a single character is part of most words

    pairs = ((group_word, pod_word) for group_word in group_words if group_word for pod_word in pod_words)
    return any(group_word in pod_word or pod_word in group_word for group_word, pod_word in pairs)


class _GroupResource(NamedTuple):
    """A resource whose objects can be node groups."""

    api_group: str
    plural: str
    list_objects: Callable[[Cluster], Sequence[MachineTemplateOwner | MachinePool]]


_GROUP_RESOURCES = {
    "MachineDeployment": (
        _GroupResource(CLUSTER_API, "machinedeployments", lambda cluster: cluster.machine_deployments),
    ),
    "MachinePool": (_GroupResource(CLUSTER_API, "machinepools", lambda cluster: cluster.machine_pools),),
    "MachineSet": (
        _GroupResource(CLUSTER_API, "machinesets", lambda cluster: cluster.machine_sets),
        _GroupResource(OPENSHIFT, "machinesets", lambda cluster: cluster.openshift_machine_sets),
    ),
}
"""The resources of each kind that can be a node group."""


def _find_max_size_command(cluster: Cluster, group_id: str, max_size: str) -> str | None:
    """Return the command that sets the maximum size of a node group by annotating the group's object.

    Only objects of the Cluster API and OpenShift's MachineSets can be annotated. The id of such a group is
    KIND/NAMESPACE/NAME. Return None for other groups, and if the cluster does not have the object.
    """
    kind, _, namespaced_name = group_id.partition("/")
    namespace, _, name = namespaced_name.partition("/")
    for resource in _GROUP_RESOURCES.get(kind, ()):
        objects = resource.list_objects(cluster)
        if any((obj.metadata.namespace, obj.metadata.name) == (namespace, name) for obj in objects):
            annotation = f"{resource.api_group}/{MAX_SIZE}={max_size}"
            annotate = ("kubectl", "annotate", f"{resource.plural}.{resource.api_group}", name, "-n", namespace)
            return shlex.join((*annotate, "--overwrite", annotation))
    return None
