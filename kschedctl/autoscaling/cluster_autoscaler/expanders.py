"""Expanders: filters that choose which of the helpful groups grows, chained until one option is left.

Upstream: expander/factory/chain.go, expander/{waste,mostpods,leastnodes,priority,random} (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from kschedctl.api.kinds import PRIORITY_MAP
from kschedctl.api.objects import ConfigMap, Node, Pod
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup
from kschedctl.cel.errors import AbortedError, CelError
from kschedctl.cel.library.regular_expressions import is_supported, matches, validate_pattern

PRIORITIES = "priorities"


@dataclass(frozen=True)
class Option:
    """A way to grow: a number of nodes of a group, and of similar groups, for some pods."""

    group: AutoscaledGroup
    nodes: int
    pods: tuple[Pod, ...]
    similar: tuple[AutoscaledGroup, ...] = ()


@dataclass
class Expanders:
    """The expanders and what they need."""

    templates: Mapping[str, Node]
    """By group."""
    requests: Callable[[Pod], Mapping[str, int]]
    """Returns what a pod requests."""
    config_map: ConfigMap | None
    """The ConfigMap of the priority expander."""
    events: list[tuple[str, str, str]]
    """Events written on the way: type, reason, message."""
    doubts: list[str] = field(default_factory=list)
    """What the priority expander would need to decide, so that all options are left."""

    def choose(self, chain: str, options: Sequence[Option]) -> tuple[Option | None, tuple[str, ...]]:
        """Return the chosen option, and the groups of all remaining options if chance decides."""
        left = list(options)
        for name in chain.split(","):
            left = self._apply_expander(name, left)
            if len(left) == 1:
                break
        if not left:
            return None, ()
        names = tuple(sorted(option.group.id for option in left))
        return min(left, key=lambda option: option.group.id), names if len(left) > 1 else ()

    def _apply_expander(self, name: str, options: list[Option]) -> list[Option]:
        """Return the options that one expander keeps."""
        match name:
            case "random":
                return options
            case "most-pods":
                return _select_largest(options, lambda option: len(option.pods))
            case "least-nodes":
                return _select_largest(options, lambda option: -option.nodes)
            case "least-waste":
                return _select_largest(options, lambda option: -self._compute_waste(option))
            case _:
                return self._filter_by_priority(options)

    def _compute_waste(self, option: Option) -> float:
        """Return the share of cpu plus that of memory that the new nodes would leave unused."""
        has = node_facts.get_capacity(self.templates[option.group.id])
        waste = 0.0
        for name in ("cpu", "memory"):
            available = has.get(name, 0) * option.nodes
            requested = sum(self.requests(pod).get(name, 0) for pod in option.pods)
            waste += (available - requested) / available if available else float("nan")
        return waste

    def _filter_by_priority(self, options: list[Option]) -> list[Option]:
        """Return the options with the highest number whose expressions match the group's name, or all."""
        if self.config_map is None:
            return options
        try:
            priorities = read_priorities(self.config_map)
        except ValueError as error:
            self.events.append(("Warning", "PriorityConfigMapInvalid", str(error)))
            return options
        try:
            numbers_of = {
                option.group.id: [
                    number for number, patterns in priorities.items() if matches_any(patterns, option.group.id)
                ]
                for option in options
            }
        except AbortedError:
            self.doubts.append(_needs_re2(priorities))
            return options
        best: list[Option] = []
        highest = -1
        for option in options:
            numbers = numbers_of[option.group.id]
            if not numbers:
                name = option.group.id
                said = f"Priority expander: node group {name} not found in priority expander configuration."
                self.events.append(("Warning", "PriorityConfigMapNotMatchedGroup", f"{said} The group won't be used."))
                continue
            if max(numbers) > highest:
                best, highest = [], max(numbers)
            if max(numbers) == highest:
                best.append(option)
        if not best:
            said = "Priority expander: no priorities info found for any of the expansion options. No options filtered."
            self.events.append(("Warning", "PriorityConfigMapNoGroupMatched", said))
            return options
        return best


def _needs_re2(priorities: Mapping[int, Sequence[str]]) -> str:
    """Return which expressions of the priority expander only RE2 can run."""
    expressions = [
        pattern for patterns in priorities.values() for pattern in patterns if not is_supported(str(pattern))
    ]
    named = ", ".join(f'"{pattern}"' for pattern in expressions) or "the expressions on such long names"
    return (
        f"the priority expander chooses by {named}, which only RE2 can run: install kschedctl[re2]; "
        "any group that could grow may be the one that does"
    )


def _select_largest(options: list[Option], of: Callable[[Option], float]) -> list[Option]:
    values = [of(option) for option in options]
    return [option for option, value in zip(options, values, strict=True) if value == max(values)]


def read_priorities(config_map: ConfigMap) -> dict[int, list[str]]:
    """Read the expressions for group names by number. Raises ValueError."""
    if PRIORITIES not in config_map.data:
        raise ValueError(f"Wrong configmap for priority expander, doesn't contain {PRIORITIES} key. Ignoring update.")
    try:
        return _parse_priorities(config_map.data[PRIORITIES])
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"Wrong configuration for priority expander: {error}. Ignoring update.") from None


def _parse_priorities(text: str) -> dict[int, list[str]]:
    """Parse the priorities. Raises ValueError, YAMLError."""
    if not text:
        said = f"priority configuration in {PRIORITY_MAP} configmap is empty; please provide valid configuration"
        raise ValueError(said)
    read = yaml.safe_load(text)
    if not isinstance(read, dict) or not all(isinstance(number, int) for number in read):
        raise ValueError("Can't parse YAML with priorities in the configmap")
    for number, patterns in read.items():
        for pattern in patterns or ():
            _validate_expression(number, str(pattern))
    return {number: list(patterns or ()) for number, patterns in read.items()}


def _validate_expression(number: int, pattern: str) -> None:
    """Raise ValueError if the expression of a priority is invalid."""
    try:
        validate_pattern(pattern)
    except CelError as error:
        said = f"Can't compile regexp rule for priority {number} and rule {pattern}: {error}"
        raise ValueError(said) from None


def matches_any(patterns: Sequence[str], name: str) -> bool:
    """Return whether one of the expressions is found in the name."""
    return any(matches(name, pattern) for pattern in patterns)
