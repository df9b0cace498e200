"""Rules about the Cluster Autoscaler: its priority expander and its node groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kschedctl.api.json_values import object_at
from kschedctl.api.kinds import PRIORITY_MAP
from kschedctl.api.objects import ConfigMap
from kschedctl.api.tolerations import HARD_EFFECTS, is_tolerated
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule

EXPANDERS = "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md"
PRIORITIES_PATH: Path = ("data", "priorities")


def find_unreadable_expander_priorities(context: LintContext) -> Iterator[Problem]:
    """Find ConfigMaps of the priority expander that the Cluster Autoscaler cannot parse."""
    from kschedctl.autoscaling.cluster_autoscaler.expanders import read_priorities  # noqa: PLC0415 - few have a map

    for subject, config_map in _iter_priority_config_maps(context):
        try:
            read_priorities(config_map)
        except ValueError as error:
            path = PRIORITIES_PATH if "priorities" in config_map.data else ("data",)
            yield subject.build_problem(path, str(error))


CA_PRIORITIES_UNREADABLE = Rule(
    "ca-priorities-unreadable",
    ERROR,
    find_unreadable_expander_priorities,
    summary="A ConfigMap with priorities of node groups that cannot be parsed",
    why="The Cluster Autoscaler ignores the ConfigMap and says so only in an event: no group is preferred.",
    fix="Write each entry as a number with a list of regular expressions",
    source=EXPANDERS,
)


def find_unmatched_expander_priorities(context: LintContext) -> Iterator[Problem]:
    """Find priority patterns that match no node group, and node groups that no pattern matches.

    Finds nothing unless all node groups of the cluster are known.
    """
    from kschedctl.autoscaling.cluster_autoscaler.expanders import read_priorities  # noqa: PLC0415 - few have a map
    from kschedctl.autoscaling.node_groups.discovery import discover_node_groups  # noqa: PLC0415 - few have a map

    assert context.cluster is not None
    config_maps = list(_iter_priority_config_maps(context))
    if not config_maps:
        return
    node_groups = discover_node_groups(context.cluster)
    if not node_groups.are_certain or not node_groups.groups:
        return
    for subject, config_map in config_maps:
        try:
            priorities = read_priorities(config_map)
        except ValueError:  # find_unreadable_expander_priorities reports it
            continue
        for message in _iter_priority_mismatches(priorities, node_groups.ids):
            yield subject.build_problem(PRIORITIES_PATH, message)


def _iter_priority_mismatches(priorities: Mapping[int, Sequence[str]], group_names: Sequence[str]) -> Iterator[str]:
    """Yield a message for each pattern that matches no node group, then for each node group that no pattern matches.

    `priorities` maps each priority to its patterns.
    """
    from kschedctl.autoscaling.cluster_autoscaler.expanders import matches_any_pattern  # noqa: PLC0415 - few have a map

    for priority, patterns in priorities.items():
        for pattern in patterns:
            if not any(matches_any_pattern((pattern,), name) for name in group_names):
                yield f"pattern {pattern} of priority {priority} matches no node group"

    all_patterns = tuple(pattern for patterns in priorities.values() for pattern in patterns)
    for name in group_names:
        if not matches_any_pattern(all_patterns, name):
            yield f"node group {name} has no priority: it is used only if no group with a priority helps"


CA_PRIORITIES_UNMATCHED = Rule(
    "ca-priorities-unmatched",
    WARNING,
    find_unmatched_expander_priorities,
    summary="A priority pattern that matches no node group, or a group without a priority",
    why="The pattern has no effect, and a group without a priority is not used as long as another group "
    "can take the pods.",
    fix="Match the names of the groups as the Cluster Autoscaler writes them",
    source=EXPANDERS,
    needs_cluster=True,
)


def find_node_groups_with_untolerated_taints(context: LintContext) -> Iterator[Problem]:
    """Find the cluster's empty node groups whose template has a hard taint that no pod tolerates.

    Tolerations without a key do not count, because they tolerate every taint. Finds nothing unless all pods are known.
    """
    from kschedctl.autoscaling.cluster_autoscaler.options import read_autoscaled_groups  # noqa: PLC0415 - few clusters have them
    from kschedctl.autoscaling.node_groups.machines import build_machine_groups  # noqa: PLC0415 - few clusters have them

    assert context.cluster is not None
    groups = read_autoscaled_groups(build_machine_groups(context.cluster).groups).all
    if not groups or not context.are_all_read("Pod"):
        return
    toleration_sets = {info.spec.tolerations for info in context.facts.view.pods.infos}
    toleration_sets |= {workload.spec.tolerations for workload in context.workloads}
    # Tolerations without a key tolerate every taint and say nothing about this group.
    keyed_toleration_sets = [
        tuple(toleration for toleration in tolerations if toleration.key) for tolerations in toleration_sets
    ]
    for group in groups:
        if group.nodes or group.template is None:
            continue
        kind, namespace, name = group.id.split("/")
        for taint in group.template.spec.taints:
            if taint.effect not in HARD_EFFECTS:
                continue
            if not any(is_tolerated(tolerations, taint) for tolerations in keyed_toleration_sets):
                message = f"new nodes would have the taint {taint}, which no pod tolerates: the group does not grow"
                yield Subject(kind, name, namespace).build_problem(("metadata", "annotations"), message)


CA_GROUP_UNUSABLE = Rule(
    "ca-group-unusable",
    NOTE,
    find_node_groups_with_untolerated_taints,
    summary="Node group with a taint that no pod tolerates",
    why="The Cluster Autoscaler adds nodes only for pods that can run on them, so the group stays empty.",
    fix="Remove the taint from the node template, or add the toleration to the pods that should run on these nodes",
    source="https://cluster-api.sigs.k8s.io/tasks/automated-machine-management/autoscaling",
    needs_cluster=True,
)


def _iter_priority_config_maps(context: LintContext) -> Iterator[tuple[Subject, ConfigMap]]:
    """Yield the ConfigMaps of the priority expander.

    The ConfigMaps are those of the manifests, or those of the cluster if the cluster itself is linted.
    """
    for subject in context.subjects:
        if subject.kind == "ConfigMap" and subject.name == PRIORITY_MAP:
            data = object_at(subject.document, "data")
            yield subject, ConfigMap(data={str(key): str(value) for key, value in data.items()})
    if not context.subjects and context.cluster is not None:
        for config_map in context.cluster.config_maps:
            if config_map.metadata.name == PRIORITY_MAP:
                yield Subject("ConfigMap", PRIORITY_MAP, config_map.metadata.namespace), config_map
