"""What the Cluster Autoscaler reads of a cluster, and cannot use."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.json_values import object_at
from kschedctl.api.kinds import PRIORITY_MAP
from kschedctl.api.objects import ConfigMap
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, WARNING, Rule
from kschedctl.lint.objects.subject import Path, Problem, Subject

EXPANDERS = "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md"
AT: Path = ("data", "priorities")


def unreadable_priorities(context: LintContext) -> Iterator[Problem]:
    from kschedctl.autoscaling.cluster_autoscaler.expanders import read_priorities  # noqa: PLC0415 - few have a map

    for subject, config_map in _maps(context):
        try:
            read_priorities(config_map)
        except ValueError as error:
            yield subject.problem(AT if "priorities" in config_map.data else ("data",), str(error))


def unmatched_priorities(context: LintContext) -> Iterator[Problem]:
    """Only where the cluster tells all its groups."""
    from kschedctl.autoscaling.cluster_autoscaler.expanders import match, read_priorities  # noqa: PLC0415
    from kschedctl.autoscaling.node_groups.found import find_node_groups  # noqa: PLC0415

    assert context.cluster is not None
    for subject, config_map in _maps(context):
        named = find_node_groups(context.cluster)
        try:
            priorities = read_priorities(config_map)
        except ValueError:
            continue
        if not (named.certain and named.groups):
            continue
        for number, patterns in priorities.items():
            for pattern in patterns:
                if not any(match((pattern,), name) for name in named.ids):
                    yield subject.problem(AT, f"{pattern} of priority {number} matches no node group")
        everything = tuple(pattern for patterns in priorities.values() for pattern in patterns)
        for name in named.ids:
            if not match(everything, name):
                yield subject.problem(AT, f"node group {name} has no priority: it grows only where no other one helps")


def _maps(context: LintContext) -> Iterator[tuple[Subject, ConfigMap]]:
    for subject in context.subjects:
        if subject.kind == "ConfigMap" and subject.name == PRIORITY_MAP:
            data = object_at(subject.document, "data")
            yield subject, ConfigMap(data={str(key): str(value) for key, value in data.items()})
    if not context.subjects and context.cluster is not None:
        for config_map in context.cluster.config_maps:
            if config_map.metadata.name == PRIORITY_MAP:
                yield Subject("ConfigMap", PRIORITY_MAP, config_map.metadata.namespace), config_map


RULES = (
    Rule(
        "ca-priorities-unreadable",
        ERROR,
        unreadable_priorities,
        summary="Priorities of node groups that do not parse",
        why="The Cluster Autoscaler ignores the map, and says so only in an event: no group is preferred.",
        fix="Write a number and a list of regular expressions each",
        source=EXPANDERS,
    ),
    Rule(
        "ca-priorities-unmatched",
        WARNING,
        unmatched_priorities,
        summary="Priorities that match no node group, or a group that has none",
        why="The expression does nothing, and a group without a priority is not used while another one helps.",
        fix="Name the groups as the autoscaler does",
        source=EXPANDERS,
        needs_cluster=True,
    ),
)
