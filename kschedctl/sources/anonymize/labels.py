"""Texts of which a plugin reads more than whether they are equal: numbers that are compared, names made of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.objects import NodeAffinity, Struct, Taint, Toleration
from kschedctl.api.ownership import TEMPLATE_HASH
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS, Cluster, drop_nulls
from kschedctl.snapshot.node_order import BETA_ZONE, ZONE

COMPARISONS = frozenset({"Gt", "Lt"})
ZONE_DELIMITER = "__"
_NUMBER = re.compile(r"([+-]?)(0*)(\d+)")


@dataclass(frozen=True)
class Numbers:
    """Key of a label or taint -> the integers that are compared under it, in order: each becomes its rank."""

    ranks: Mapping[str, Mapping[int, int]]

    @classmethod
    def of(cls, cluster: Cluster) -> Numbers:
        structs = list(_structs((*_all(cluster), added_affinities(cluster.configuration))))
        keys = {s.key for s in structs if getattr(s, "operator", "") in COMPARISONS}
        numbers_of: dict[str, set[int]] = {key: set() for key in keys}
        for key, value in _keyed_values(structs):
            if key in numbers_of and _is_number(value):
                numbers_of[key].add(int(value))
        return cls({key: _ranks(numbers) for key, numbers in numbers_of.items()})

    def rank(self, key: str, value: str) -> str | None:
        """The number that stands for this one under this key; None for other values.

        >>> Numbers({"cores": {8: 0, 16: 1}}).rank("cores", "016")
        '01'
        """
        if key not in self.ranks or not _is_number(value):
            return None
        sign, zeros = _NUMBER.match(value).groups()[:2]  # type: ignore[union-attr]
        return f"{sign}{zeros}{abs(self.ranks[key][int(value)])}"


def _ranks(numbers: Iterable[int]) -> dict[int, int]:
    """Number -> its place among those of its sign, so that the sign stays.

    >>> _ranks([-7, 40, -2, 0])
    {-7: -2, -2: -1, 0: 0, 40: 1}
    """
    ordered = sorted(numbers)
    negative = sum(number < 0 for number in ordered)
    return {number: place - negative for place, number in enumerate(ordered)}


def _is_number(value: str) -> bool:
    """Whether Go reads it as an int64."""
    return bool(_NUMBER.fullmatch(value)) and -(1 << 63) <= int(value) < 1 << 63


def added_affinities(configuration: Mapping[str, Any] | None) -> list[NodeAffinity]:
    """The node affinities that a KubeSchedulerConfiguration adds to every pod."""
    profiles = (configuration or {}).get("profiles") or ()
    configs = (config for profile in profiles for config in profile.get("pluginConfig") or ())
    affinities = ((config.get("args") or {}).get("addedAffinity") for config in configs)
    return [convert_builtins(drop_nulls(affinity), NodeAffinity) for affinity in affinities if affinity]


def composed_names(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Texts of which the parts between dashes mean something, and their parts.

    The claim of an ephemeral volume is called after pod and volume, a ReplicaSet after its Deployment and the hash of
    its pods' template; the region of a zone is read from its name.
    """
    table = PodTable.from_pods(cluster.pods)
    composed: dict[str, tuple[str, ...]] = dict(_replica_sets(table))
    claims = [[v.name for v in pod.spec.volumes if v.ephemeral is not None] for pod in table.templates]
    for template, name in zip(table.template.tolist(), table.names, strict=True):
        for volume in claims[template]:
            composed[f"{name}-{volume}"] = (name, volume)
    for key, value in _keyed_values(_structs(_all(cluster))):
        if key in (ZONE, BETA_ZONE):
            for zone in map(str.strip, value.split(ZONE_DELIMITER)):
                parts = tuple(zone.split("-"))
                if len(parts) == 3 and all(parts):
                    composed[zone] = parts
    return composed


def _replica_sets(table: PodTable) -> Iterator[tuple[str, tuple[str, str]]]:
    for meta in (template.metadata for template in table.templates):
        template_hash = meta.labels.get(TEMPLATE_HASH, "")
        for owner in meta.owner_references if template_hash else ():
            if owner.kind == "ReplicaSet" and owner.name.endswith(f"-{template_hash}"):
                yield owner.name, (owner.name.removesuffix(f"-{template_hash}"), template_hash)


def _all(cluster: Cluster) -> Iterator[object]:
    yield PodTable.from_pods(cluster.pods).templates
    yield from (getattr(cluster, field) for kind, field in FIELDS.items() if kind != "Pod")


def _structs(value: Any) -> Iterator[Any]:
    """The value and everything in it that is a struct, but for images of nodes: many, and they have no keys."""
    if isinstance(value, Struct):
        yield value
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            if inner and isinstance(inner, Struct | tuple | dict) and name != "images":
                yield from _structs(inner)
    elif isinstance(value, dict):
        if any(isinstance(inner, Struct) for inner in value.values()):
            yield from _structs(tuple(value.values()))
    elif not isinstance(value, str | bytes) and isinstance(value, Iterable):
        for inner in value:
            if not isinstance(inner, str):
                yield from _structs(inner)


def _keyed_values(structs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """The keys of labels and taints with values that stand under them, in objects and in what selects them."""
    for struct in structs:
        for field in ("labels", "match_labels", "node_selector"):
            pairs = getattr(struct, field, None)
            if isinstance(pairs, dict):
                yield from pairs.items()
        if isinstance(struct, Taint | Toleration):
            yield struct.key, struct.value
        values = getattr(struct, "values", None)
        if isinstance(values, tuple):
            yield from ((struct.key, value) for value in values)
