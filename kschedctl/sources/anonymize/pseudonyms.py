"""Pseudonyms that sort like their originals, and the original of each.

Two kinds of strings need special pseudonyms: numbers that plugins compare by order, and names composed of other names.
"""

from __future__ import annotations

import re
import string
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import drop_nulls
from kschedctl.api.objects import NodeAffinity, Struct, Taint, Toleration
from kschedctl.api.ownership import TEMPLATE_HASH
from kschedctl.api.pod_table import PodTable
from kschedctl.api.resource_names import is_qualified_name
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.snapshot.nodes import BETA_ZONE, ZONE
from kschedctl.sources.anonymize.kept_texts import (
    CUSTOM_NAME_DOMAINS,
    KEPT_PARTS,
    is_well_known_domain,
    is_well_known_key,
)

INVALID_SUFFIX = "?"
"""A suffix that makes a label value or key invalid, so that an invalid original remains invalid."""
MIN_DIGITS = 4
"""The minimum number of digits in a pseudonym."""
_LETTERS = string.ascii_lowercase + string.digits

_COMPARISONS = frozenset({"Gt", "Lt"})
ZONE_DELIMITER = "__"
_NUMBER = re.compile(r"([+-]?)(0*)(\d+)")


class _CollectedText(NamedTuple):
    """A text that gets a pseudonym."""

    text: str
    is_head: bool
    """True for a domain, with its slash, and for a key without a domain."""


class Pseudonyms:
    """Pseudonyms of strings, which are collected in a first pass and replaced in a second pass.

    ``assign_pseudonyms`` is called between the passes. Until then, the methods below return strings unchanged.
    ``composed`` maps names whose parts between dashes are names themselves to these parts.
    """

    def __init__(self, composed: Mapping[str, tuple[str, ...]]) -> None:
        self._composed = composed
        self._names: dict[str, str] = {}
        """The pseudonym of each text that is replaced as a whole, or the text itself during the first pass."""
        self._heads: dict[str, str] = {}
        """The pseudonym of each domain, with its slash, and of each key without a domain."""
        self._kept_heads: set[str] = set()
        """The domains, with their slashes, and the keys without a domain that are kept."""
        self.kept_keys: set[str] = set()
        """The keys and names of resources that have no pseudonym."""

    def replace_name(self, text: str) -> str:
        """Return the pseudonym of a name, or "" for an empty name.

        Before pseudonyms are assigned, the name is collected and returned unchanged. The parts of a composed name are
        replaced separately.
        """
        if text in self._composed:
            return "-".join(map(self.replace_name, self._composed[text]))
        if not text:
            return text
        return self._names.setdefault(text, text)

    def replace_key(self, text: str) -> str:
        """Replace the key of a label or taint, or a name of the same form.

        A well-known or empty key is returned unchanged and recorded as kept. In other keys, the domain and the name
        after the slash are replaced separately, and a usual name of a node pool's label is kept. The replacement of an
        invalid key is invalid as well.
        """
        if is_well_known_key(text) or not text:
            return self.keep_key(text)
        domain, slash, name = text.rpartition("/")
        if slash:
            name_pseudonym = name if name in KEPT_PARTS else self.replace_name(name)
            pseudonym = f"{self.replace_domain(domain)}/{name_pseudonym}"
        else:
            pseudonym = self._replace_key_head(text)
        return pseudonym if is_qualified_name(text) else f"{pseudonym}{INVALID_SUFFIX}"

    def keep_key(self, text: str) -> str:
        """Record that a key and its domain are not replaced, and return the key."""
        domain, slash, _ = text.rpartition("/")
        self._kept_heads.add(f"{domain}/" if slash else text)
        self.kept_keys.add(text)
        return text

    def replace_domain(self, text: str) -> str:
        """Replace the domain of a key. A well-known domain is returned unchanged and recorded as kept."""
        if text in CUSTOM_NAME_DOMAINS or is_well_known_domain(text):
            self._kept_heads.add(f"{text}/")
            return text
        return self._replace_key_head(f"{text}/")

    def assign_pseudonyms(self) -> dict[str, str]:
        """Choose a pseudonym for every collected text, and return a map from pseudonyms to their originals.

        Pseudonyms are numbered in the order of their originals. The pseudonyms of heads, which are domains and keys
        without a domain, also get a prefix, so that they keep their place among the heads without a pseudonym.
        """
        kept_heads = sorted(self._kept_heads - {""})
        names = [_CollectedText(text, is_head=False) for text in self._names]
        heads = [_CollectedText(text, is_head=True) for text in self._heads]
        collected_texts = sorted(names + heads)
        digits = max(len(str(len(collected_texts))), MIN_DIGITS)
        originals = {}
        for number, (text, is_head) in enumerate(collected_texts):
            prefix = _choose_sort_prefix(kept_heads, text) if is_head else ""
            pseudonym = f"{prefix}x{number:0{digits}d}"
            pseudonym_by_text = self._heads if is_head else self._names
            pseudonym_by_text[text] = pseudonym
            originals[pseudonym] = text.removesuffix("/") if is_head else text  # a domain is collected with its slash
        return originals

    def _replace_key_head(self, text: str) -> str:
        """Replace the head of a key: its domain with the slash, or the whole key if it has no domain.

        Keys sort by their head.
        """
        return self._heads.setdefault(text, text)


def _choose_sort_prefix(kept_heads: Sequence[str], text: str) -> str:
    """Return a prefix that makes a pseudonym sort between the same kept keys as its original text.

    The prefix is empty if none is needed, or if no prefix achieves this. A pseudonym is "x" and digits, so with a
    prefix it sorts after ``prefix + "x"`` and before ``prefix + "x~"``.

    >>> _choose_sort_prefix(["cpu", "memory", "nvidia.com/"], "example.com/")
    'd.'
    >>> _choose_sort_prefix(["cpu", "memory"], "team")
    ''
    """
    place = bisect(kept_heads, text)
    previous_kept = kept_heads[place - 1] if place else ""
    next_kept = kept_heads[place] if place < len(kept_heads) else None
    for prefix in _iter_sort_prefixes(previous_kept.rstrip("/")):
        if previous_kept < f"{prefix}x" and (next_kept is None or f"{prefix}x~" < next_kept):
            return prefix
    return ""


def _iter_sort_prefixes(text: str) -> Iterable[str]:
    """Yield candidates for a prefix: first "", then every beginning of the text followed by a letter and a dot.

    Shorter candidates come first.
    """
    yield ""
    for length in range(len(text) + 1):
        yield from (f"{text[:length]}{letter}." for letter in _LETTERS)


@dataclass(frozen=True)
class Numbers:
    """Replacements for integers that are compared by order: their ranks among the values of the same key."""

    ranks: Mapping[str, Mapping[int, int]]
    """The rank of each integer, by the key of a label or taint."""

    @classmethod
    def from_cluster(cls, cluster: Cluster) -> Numbers:
        """Rank the integers under each label or taint key that is compared with Gt or Lt."""
        structs = list(
            _iter_nested_structs((*_iter_object_lists(cluster), _get_added_affinities(cluster.configuration)))
        )
        keys = {struct.key for struct in structs if getattr(struct, "operator", "") in _COMPARISONS}
        numbers_by_key: dict[str, set[int]] = {key: set() for key in keys}
        for key, value in _iter_labels_and_taints(structs):
            if key in numbers_by_key and _is_int64(value):
                numbers_by_key[key].add(int(value))
        return cls({key: _rank_integers(numbers) for key, numbers in numbers_by_key.items()})

    def replace_with_rank(self, key: str, value: str) -> str | None:
        """Return a label's number replaced by its rank, with the same sign and leading zeros.

        Return None if the value is not an integer or the numbers under the key are not ranked.

        >>> Numbers({"cores": {8: 0, 16: 1}}).replace_with_rank("cores", "016")
        '01'
        """
        match = _NUMBER.fullmatch(value)
        if match is None or key not in self.ranks or not _is_int64(value):
            return None
        sign, zeros, _digits = match.groups()
        return f"{sign}{zeros}{abs(self.ranks[key][int(value)])}"


def _rank_integers(numbers: Iterable[int]) -> dict[int, int]:
    """Return the rank of each number. Negative numbers get negative ranks, so that signs are kept.

    >>> _rank_integers([-7, 40, -2, 0])
    {-7: -2, -2: -1, 0: 0, 40: 1}
    """
    ordered = sorted(numbers)
    negative_count = sum(number < 0 for number in ordered)
    return {number: index - negative_count for index, number in enumerate(ordered)}


def _is_int64(value: str) -> bool:
    """Return whether Go can parse the string as an int64."""
    return bool(_NUMBER.fullmatch(value)) and -(1 << 63) <= int(value) < 1 << 63


def _get_added_affinities(configuration: Mapping[str, Any] | None) -> list[NodeAffinity]:
    """Return the ``addedAffinity`` of each profile in a KubeSchedulerConfiguration, or [] without a configuration.

    A profile adds this node affinity to all its pods.
    """
    profiles = (configuration or {}).get("profiles") or ()
    plugin_configs = (config for profile in profiles for config in profile.get("pluginConfig") or ())
    affinities = ((config.get("args") or {}).get("addedAffinity") for config in plugin_configs)
    return [convert_builtins(drop_nulls(affinity), NodeAffinity) for affinity in affinities if affinity]


def find_composed_names(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Return the names in a cluster that are composed of other names, each with its parts. Dashes join the parts.

    The claim of an ephemeral volume is named after its pod and volume. A ReplicaSet is named after its Deployment and
    the hash of its pod template. A zone is named after its region.
    """
    table = PodTable.from_pods(cluster.pods)
    names: dict[str, tuple[str, ...]] = dict(_iter_replica_set_names(table))
    names |= _iter_ephemeral_claim_names(table)
    names |= _iter_zone_names(cluster)
    return names


def _iter_ephemeral_claim_names(table: PodTable) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the claim name of each ephemeral volume, and the pod name and volume name that it joins."""
    ephemeral_volumes = [[v.name for v in pod.spec.volumes if v.ephemeral is not None] for pod in table.templates]
    for template_index, name in zip(table.template.tolist(), table.names, strict=True):
        for volume in ephemeral_volumes[template_index]:
            yield f"{name}-{volume}", (name, volume)


def _iter_zone_names(cluster: Cluster) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the parts of each zone whose name has three parts, such as ``us-east-1a``."""
    for key, value in _iter_labels_and_taints(_iter_nested_structs(_iter_object_lists(cluster))):
        if key in (ZONE, BETA_ZONE):
            for zone in map(str.strip, value.split(ZONE_DELIMITER)):
                parts = tuple(zone.split("-"))
                if len(parts) == 3 and all(parts):
                    yield zone, parts


def _iter_replica_set_names(table: PodTable) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the name of each ReplicaSet with its two parts, the Deployment and the template hash."""
    for meta in (template.metadata for template in table.templates):
        template_hash = meta.labels.get(TEMPLATE_HASH, "")
        if not template_hash:
            continue
        for owner in meta.owner_references:
            if owner.kind == "ReplicaSet" and owner.name.endswith(f"-{template_hash}"):
                yield owner.name, (owner.name.removesuffix(f"-{template_hash}"), template_hash)


def _iter_object_lists(cluster: Cluster) -> Iterator[object]:
    """Yield a sequence with the objects of each kind in a cluster. Pods are represented by their templates."""
    yield PodTable.from_pods(cluster.pods).templates
    yield from (getattr(cluster, field) for kind, field in FIELDS.items() if kind != "Pod")


def _iter_nested_structs(value: Any) -> Iterator[Any]:
    """Yield the value if it is a struct, and all structs nested in it.

    Images of nodes are skipped, because there are many and they have no labels.
    """
    if isinstance(value, Struct):
        yield value
        for name in value.__struct_fields__:
            nested = getattr(value, name)
            if nested and isinstance(nested, Struct | tuple | dict) and name != "images":
                yield from _iter_nested_structs(nested)
    elif isinstance(value, dict):
        if any(isinstance(nested, Struct) for nested in value.values()):
            yield from _iter_nested_structs(tuple(value.values()))
    elif not isinstance(value, str | bytes) and isinstance(value, Iterable):
        for nested in value:
            if not isinstance(nested, str):
                yield from _iter_nested_structs(nested)


def _iter_labels_and_taints(structs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield the key and value of each label, taint, toleration and requirement in the structs.

    A requirement yields its key with each of its values. Selectors by label count as labels.
    """
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
