"""The status ConfigMap of the Cluster Autoscaler, in its YAML form and its text form.

Upstream: clusterstate/api/types.go, clusterstate/utils/status.go (1.36); up to 1.29 the text form of the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import drop_nulls
from kschedctl.api.objects import ConfigMap, Struct

BACKOFF, UNHEALTHY, IN_PROGRESS = "Backoff", "Unhealthy", "InProgress"
KEY = "status"
NO_GROUPS = "no node groups: truncated, or the autoscaler has none"
_GROUP = re.compile(r"^  Name:[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_HEALTH = re.compile(
    r"^  Health:[ \t]+(?P<state>\w+) \(ready=\d+ .*?registered=(?P<registered>\d+) "
    r".*?cloudProviderTarget=(?P<target>\d+) \(minSize=(?P<minimum>\d+), maxSize=(?P<maximum>\d+)\)\)",
    re.MULTILINE,
)
_SCALE_UP = re.compile(r"^  ScaleUp:[ \t]+(NoActivity|InProgress|Backoff|Unhealthy) \(", re.MULTILINE)
_TIME = re.compile(r"\ACluster-autoscaler status at (.+):\s*$", re.MULTILINE)


class NodeGroupStatus(NamedTuple):
    """The state of a node group."""

    name: str
    min: int
    max: int
    target: int
    registered: int
    health: str
    scale_up: str
    """NoActivity, InProgress, Backoff or Unhealthy."""
    backoff_reason: str = ""
    """The reason why the group backs off, or "" if it does not."""


class AutoscalerStatus(NamedTuple):
    """The contents of a status ConfigMap."""

    where: str
    """Description of the ConfigMap."""
    time: str
    """When the status was written."""
    groups: tuple[NodeGroupStatus, ...]
    faults: tuple[str, ...] = ()
    """Descriptions of parts that cannot be read."""


class _Registered(Struct, frozen=True):
    """The number of registered nodes."""

    total: int


class _NodeCounts(Struct, frozen=True):
    """The numbers of nodes in a group."""

    registered: _Registered


class _Health(Struct, frozen=True):
    """The health, limits and target of a group."""

    node_counts: _NodeCounts
    cloud_provider_target: int
    min_size: int
    max_size: int
    status: str = ""


class _Backoff(Struct, frozen=True):
    """The error after which a group backs off."""

    error_code: str = ""
    error_message: str = ""


class _ScaleUp(Struct, frozen=True):
    """The state of a group's scale-up."""

    status: Literal["NoActivity", "InProgress", "Backoff", "Unhealthy"]
    backoff_info: _Backoff = _Backoff()


class _Group(Struct, frozen=True):
    """One node group in the YAML form of the status."""

    name: str
    health: _Health
    scale_up: _ScaleUp


def read_autoscaler_status(config_map: ConfigMap) -> AutoscalerStatus:
    """Parse a status ConfigMap in its YAML form or its text form. Unreadable parts are described as faults."""
    where = f"ConfigMap {config_map.metadata.namespace}/{config_map.metadata.name}"
    text = config_map.data.get(KEY)
    if text is None:
        return AutoscalerStatus(where, time="", groups=(), faults=(f'{where}: no key "{KEY}"',))
    key_path = f"{where}, {KEY}"
    if text.startswith("Cluster-autoscaler"):
        return _parse_text_status(key_path, text)
    return _parse_yaml_status(key_path, text)


def _parse_yaml_status(where: str, text: str) -> AutoscalerStatus:
    """Parse the YAML form of the status, which is written since 1.30.

    Invalid YAML, a missing time, missing groups and malformed groups are described as faults. Each fault begins with
    ``where``.
    """
    import yaml  # noqa: PLC0415 - few clusters have such a ConfigMap

    try:
        document = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = ""
        if mark:
            # The parser notices truncation only after the last line.
            line = f" in line {min(mark.line + 1, len(text.splitlines()))}"
        return AutoscalerStatus(where, time="", groups=(), faults=(f"{where}: invalid YAML{line}, perhaps truncated",))
    if not isinstance(document, Mapping):
        return AutoscalerStatus(where, time="", groups=(), faults=(f"{where}: not what the Cluster Autoscaler writes",))

    time = str(document.get("time") or "")
    documents = document.get("nodeGroups") or []
    faults = [] if time else [f"{where}: truncated: the time is missing"]
    if not documents:
        faults.append(f"{where}: {NO_GROUPS}")
    if not isinstance(documents, list):
        return AutoscalerStatus(where, time, groups=(), faults=(*faults, f"{where}: nodeGroups: expected array"))

    groups: list[NodeGroupStatus] = []
    for index, group in enumerate(documents):
        try:
            cleaned_group = _convert_name_to_text(drop_nulls(group))
            groups.append(_build_group_status(convert_builtins(cleaned_group, _Group)))
        except msgspec.ValidationError as error:
            faults.append(f"{where}: nodeGroups[{index}]: {error}")
    return AutoscalerStatus(where, time, tuple(groups), tuple(faults))


def _convert_name_to_text(group: object) -> object:
    """Return the group with its name as a string, because YAML reads some names as numbers.

    Anything that is not a group with a name is returned unchanged.
    """
    if not isinstance(group, dict) or "name" not in group:
        return group
    return {**group, "name": str(group["name"])}


def _build_group_status(group: _Group) -> NodeGroupStatus:
    """Build the status of a node group from its document."""
    health, scale_up = group.health, group.scale_up
    reason = ": ".join(filter(None, (scale_up.backoff_info.error_code, scale_up.backoff_info.error_message)))
    return NodeGroupStatus(
        group.name,
        health.min_size,
        health.max_size,
        target=health.cloud_provider_target,
        registered=health.node_counts.registered.total,
        health=health.status,
        scale_up=scale_up.status,
        backoff_reason=reason,
    )


def _parse_text_status(where: str, text: str) -> AutoscalerStatus:
    """Parse the text form of the status, which was written up to 1.29.

    A missing time, missing groups and incomplete groups are described as faults. Each fault begins with ``where``.
    """
    time = _TIME.search(text)
    groups: list[NodeGroupStatus] = []
    faults: list[str] = [] if time else [f"{where}: truncated: the time is missing"]
    if _GROUP.search(text) is None:
        faults.append(f"{where}: {NO_GROUPS}")
    for name, block in _iter_group_blocks(text):
        health, scale_up = _HEALTH.search(block), _SCALE_UP.search(block)
        if health is None or scale_up is None:
            faults.append(f"{where}: node group {name}: {'Health' if health is None else 'ScaleUp'} is missing")
            continue
        groups.append(
            NodeGroupStatus(
                name,
                int(health["minimum"]),
                int(health["maximum"]),
                target=int(health["target"]),
                registered=int(health["registered"]),
                health=health["state"],
                scale_up=scale_up[1],
            )
        )
    return AutoscalerStatus(where, time[1] if time else "", tuple(groups), tuple(faults))


def _iter_group_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each group in the text form, and the text about it, up to the next group."""
    starts = list(_GROUP.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=False):  # without groups, there is one end and no start
        yield start[1], text[start.end() : end]
