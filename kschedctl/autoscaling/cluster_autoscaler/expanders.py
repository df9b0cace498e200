"""The choice of the node groups that grow: expanders choose one of them, and similar groups share its new nodes.

Upstream: expander/factory/chain.go, expander/{waste,mostpods,leastnodes,priority,random}, and in
processors/nodegroupset compare_nodegroups.go, label_nodegroups.go and balancing_processor.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from kschedctl.api.kinds import PRIORITY_MAP
from kschedctl.api.objects import ConfigMap, Node, Pod
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, AutoscalerOptions
from kschedctl.cel.errors import AbortedError, CelError
from kschedctl.cel.library.regular_expressions import is_supported, matches, validate_pattern
from kschedctl.snapshot.nodes import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE

PRIORITIES = "priorities"
LOWEST_PRIORITY = -1
"""Groups with a lower priority are never chosen."""

_MEMORY_RATIO, _ALLOCATABLE_RATIO, _FREE_RATIO = 0.015, 0.05, 0.05
_IGNORED_LABELS = frozenset(
    (HOSTNAME, ZONE, REGION, BETA_ZONE, BETA_REGION, "beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup")
)


@dataclass(frozen=True)
class Option:
    """A way to grow: a number of new nodes of a group and of similar groups, for some pods."""

    group: AutoscaledGroup
    nodes: int
    pods: tuple[Pod, ...]
    similar: tuple[AutoscaledGroup, ...] = ()


class ExpanderChoice(NamedTuple):
    """The option that the expanders choose."""

    option: Option | None
    """None if there is no option."""
    tied: tuple[str, ...] = ()
    """The groups among which upstream would choose at random, if there are several."""


@dataclass
class Expanders:
    """The expanders and the data on which they base their choice."""

    templates: Mapping[str, Node]
    """Node group -> its template."""
    get_requests: Callable[[Pod], Mapping[str, int]]
    """Returns the requests of a pod."""
    config_map: ConfigMap | None
    """The ConfigMap of the priority expander."""
    events: list[tuple[str, str, str]]
    """Events written while deciding: type, reason, message."""
    doubts: list[str] = field(default_factory=list)
    """Reasons why the priority expander could not decide, so that it kept all options."""

    def choose_expansion_option(self, chain: str, options: Sequence[Option]) -> ExpanderChoice:
        """Apply the expanders in the comma-separated chain one after another, and return the chosen option.

        If several options remain, upstream chooses one at random. This method chooses the first by name, and also
        returns the names of all remaining groups. If the expanders leave no option, none is chosen.
        """
        remaining = list(options)
        for name in chain.split(","):
            remaining = self._filter_by_expander(name, remaining)
            if len(remaining) == 1:
                break
        if not remaining:
            return ExpanderChoice(None)
        first = min(remaining, key=lambda option: option.group.id)
        if len(remaining) == 1:
            return ExpanderChoice(first)
        return ExpanderChoice(first, tuple(sorted(option.group.id for option in remaining)))

    def _filter_by_expander(self, name: str, options: list[Option]) -> list[Option]:
        """Return the options that the named expander keeps. The random expander keeps all of them."""
        match name:
            case "random":
                return options
            case "most-pods":
                return _select_options_with_largest(options, lambda option: len(option.pods))
            case "least-nodes":
                return _select_options_with_largest(options, lambda option: -option.nodes)
            case "least-waste":
                return _select_options_with_largest(options, lambda option: -self._compute_waste_score(option))
            case _:
                return self._filter_by_priority(options)

    def _compute_waste_score(self, option: Option) -> float:
        """Return the sum of the CPU share and the memory share that the new nodes would leave unused.

        The result is NaN for nodes without CPU or without memory.
        """
        capacity = node_facts.get_capacity(self.templates[option.group.id])
        waste = 0.0
        for name in ("cpu", "memory"):
            available = capacity.get(name, 0) * option.nodes
            requested = sum(self.get_requests(pod).get(name, 0) for pod in option.pods)
            # NaN as in upstream, whose division of 0 by 0 yields it
            waste += (available - requested) / available if available else float("nan")
        return waste

    def _add_unmatched_group_event(self, group: str) -> None:
        """Add the event that no expression of the priority configuration matches the group's name."""
        fault = f"node group {group} not found in priority expander configuration."
        message = f"Priority expander: {fault} The group won't be used."
        self.events.append(("Warning", "PriorityConfigMapNotMatchedGroup", message))

    def _filter_by_priority(self, options: list[Option]) -> list[Option]:
        """Return the options with the highest priority, or all options if no priority is usable.

        A group's priority is the highest number with an expression that matches the group's name. Numbers below
        LOWEST_PRIORITY are not usable, and neither is a missing or invalid ConfigMap. An expression that cannot be
        evaluated also keeps all options, and adds a note to `doubts`. Events report invalid ConfigMaps and groups
        without a match.
        """
        if self.config_map is None:
            return options
        try:
            priorities = read_priorities(self.config_map)
        except ValueError as error:
            self.events.append(("Warning", "PriorityConfigMapInvalid", str(error)))
            return options
        try:
            priority_by_group = {
                option.group.id: find_group_priority(priorities, option.group.id) for option in options
            }
        except AbortedError:
            self.doubts.append(_describe_patterns_needing_re2(priorities))
            return options

        # Report the groups without a match, and keep the options with the highest usable priority
        for group_id, priority in priority_by_group.items():
            if priority is None:
                self._add_unmatched_group_event(group_id)
        usable_priorities = [
            priority for priority in priority_by_group.values() if priority is not None and priority >= LOWEST_PRIORITY
        ]
        if not usable_priorities:
            message = (
                "Priority expander: no priorities info found for any of the expansion options. No options filtered."
            )
            self.events.append(("Warning", "PriorityConfigMapNoGroupMatched", message))
            return options
        highest = max(usable_priorities)
        return [option for option in options if priority_by_group[option.group.id] == highest]


def _describe_patterns_needing_re2(priorities: Mapping[int, Sequence[str]]) -> str:
    """Describe which of the priority expander's expressions cannot be evaluated without RE2, and the consequence."""
    expressions = [
        pattern for patterns in priorities.values() for pattern in patterns if not is_supported(str(pattern))
    ]
    named = ", ".join(f'"{pattern}"' for pattern in expressions) or "the expressions on such long names"
    return (
        f"the priority expander chooses by {named}, a pattern that only RE2 can evaluate: install kschedctl[re2]; "
        "until then, any group that can grow may be chosen"
    )


def _select_options_with_largest(options: list[Option], measure: Callable[[Option], float]) -> list[Option]:
    """Return all options for which ``measure`` has its largest value."""
    values = [measure(option) for option in options]
    return [option for option, value in zip(options, values, strict=True) if value == max(values)]


def read_priorities(config_map: ConfigMap) -> dict[int, list[str]]:
    """Read the regular expressions for group names from the priority expander's ConfigMap, by priority.

    Raises ValueError, with upstream's message, if the key for priorities is missing or its value is invalid.
    """
    if PRIORITIES not in config_map.data:
        raise ValueError(f"Wrong configmap for priority expander, doesn't contain {PRIORITIES} key. Ignoring update.")
    try:
        return _parse_priorities(config_map.data[PRIORITIES])
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"Wrong configuration for priority expander: {error}. Ignoring update.") from None


def _parse_priorities(text: str) -> dict[int, list[str]]:
    """Parse the ConfigMap's YAML into a dict from priority to regular expressions for group names.

    Raises YAMLError for invalid YAML. Raises ValueError if the text is empty, does not map priorities to expressions,
    or has an invalid expression.
    """
    if not text:
        message = f"priority configuration in {PRIORITY_MAP} configmap is empty; please provide valid configuration"
        raise ValueError(message)
    document = yaml.safe_load(text)
    if not isinstance(document, dict) or not all(isinstance(number, int) for number in document):
        raise ValueError("Can't parse YAML with priorities in the configmap")
    for number, patterns in document.items():
        for pattern in patterns or ():
            _validate_priority_expression(number, str(pattern))
    return {number: list(patterns or ()) for number, patterns in document.items()}


def _validate_priority_expression(number: int, pattern: str) -> None:
    """Raise ValueError if ``pattern``, an expression of the priority ``number``, is not a valid regular expression."""
    try:
        validate_pattern(pattern)
    except CelError as error:
        message = f"Can't compile regexp rule for priority {number} and rule {pattern}: {error}"
        raise ValueError(message) from None


def find_group_priority(priorities: Mapping[int, Sequence[str]], group: str) -> int | None:
    """Return the highest priority with an expression that matches the group's name, or None if none matches.

    Raises AbortedError if an expression needs RE2 and RE2 is not installed.
    """
    matching = [number for number, patterns in priorities.items() if matches_any_pattern(patterns, group)]
    return max(matching, default=None)


def matches_any_pattern(patterns: Sequence[str], name: str) -> bool:
    """Return whether any of the regular expressions matches part of the name."""
    return any(matches(name, pattern) for pattern in patterns)


class TemplateShape(NamedTuple):
    """A template's node, with the requests of its pods, by which templates are compared."""

    node: Node
    requested: Mapping[str, int]
    """Total requests of the pods that come with the node."""


class Increase(NamedTuple):
    """An increase of a group's size."""

    group: AutoscaledGroup
    size: int
    new_size: int


def build_similarity_check(options: AutoscalerOptions) -> Callable[[TemplateShape, TemplateShape], bool]:
    """Build the function that decides whether two templates are similar.

    With ``--balancing-label``, templates are similar if these labels are equal. Otherwise, their resources and all
    labels that are not ignored are compared.
    """
    if options.balancing_labels:
        return lambda a, b: _have_equal_labels(a.node, b.node, options.balancing_labels)
    ignored = _IGNORED_LABELS.union(options.balancing_ignore_labels)
    return lambda a, b: _are_templates_similar(a, b, ignored)


def _have_equal_labels(a: Node, b: Node, labels: Sequence[str]) -> bool:
    """Return whether both nodes have all these labels, with the same values."""
    labels_a, labels_b = a.metadata.labels, b.metadata.labels
    return all(label in labels_a and label in labels_b and labels_a[label] == labels_b[label] for label in labels)


def _are_templates_similar(a: TemplateShape, b: TemplateShape, ignored: frozenset[str]) -> bool:
    """Return whether two templates have nearly equal resources, and equal labels except for the ignored labels."""
    capacity_a, capacity_b = node_facts.get_capacity(a.node), node_facts.get_capacity(b.node)
    if capacity_a.keys() != capacity_b.keys():
        return False
    for name in capacity_a:
        allowed_ratio = _MEMORY_RATIO if name == "memory" else 0.0
        if not _are_nearly_equal(capacity_a[name], capacity_b[name], allowed_ratio):
            return False
    allocatable_a = node_facts.get_allocatable_amounts(a.node)
    allocatable_b = node_facts.get_allocatable_amounts(b.node)
    if not _are_amounts_nearly_equal(allocatable_a, allocatable_b, _ALLOCATABLE_RATIO):
        return False
    if not _are_amounts_nearly_equal(
        _compute_free_amounts(allocatable_a, a.requested),
        _compute_free_amounts(allocatable_b, b.requested),
        _FREE_RATIO,
    ):
        return False
    return _get_compared_labels(a.node, ignored) == _get_compared_labels(b.node, ignored)


def _compute_free_amounts(offered: Mapping[str, int], requested: Mapping[str, int]) -> dict[str, int]:
    """Return the allocatable amounts minus the requests, for the requested resources that the node offers."""
    return {name: offered[name] - requested[name] for name in requested if name in offered}


def _are_amounts_nearly_equal(a: Mapping[str, int], b: Mapping[str, int], ratio: float) -> bool:
    """Return whether both have the same resources, in amounts that differ by at most this ratio."""
    return a.keys() == b.keys() and all(_are_nearly_equal(a[name], b[name], ratio) for name in a)


def _are_nearly_equal(a: int, b: int, ratio: float) -> bool:
    """Return whether the numbers differ by at most this ratio of the larger one."""
    larger, smaller = max(a, b), min(a, b)
    return larger - smaller <= larger * ratio


def _get_compared_labels(node: Node, ignored: frozenset[str]) -> dict[str, str]:
    """Return the node's labels without the ignored labels."""
    return {name: value for name, value in node.metadata.labels.items() if name not in ignored}


def balance_increases(groups: Sequence[AutoscaledGroup], count: int) -> list[Increase]:
    """Divide ``count`` new nodes among the groups, always growing the smallest group that is below its maximum.

    Only groups that grow are returned. If all groups reach their maximum, the remaining nodes are dropped.
    """
    growing = sorted((group for group in groups if group.headroom), key=lambda group: group.target)
    sizes = {group.id: group.target for group in growing}
    remaining = min(count, sum(max(group.headroom, 0) for group in growing))

    # As in upstream, groups at their maximum are moved before `first_open`. From there on, the groups stay sorted by
    # size, except that those before `current` have one node more than it.
    first_open = current = 0
    while remaining > 0:
        group = growing[current]
        if sizes[group.id] < group.max:
            sizes[group.id] += 1
            remaining -= 1
        else:
            growing[first_open], growing[current] = growing[current], growing[first_open]
            first_open += 1

        # Go on to the next group if the current one is larger now, and otherwise start over.
        current_size = sizes[growing[current].id]
        next_group = growing[current + 1] if current + 1 < len(growing) else None
        if next_group is not None and current_size > sizes[next_group.id]:
            current += 1
        else:
            current = first_open
    return [Increase(group, group.target, sizes[group.id]) for group in growing if sizes[group.id] != group.target]
