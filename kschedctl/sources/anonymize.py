"""A Cluster under pseudonyms: names, label values and images are replaced alike wherever they stand.

Pseudonyms sort as the originals do and are equal where those are, so that every plugin comes to the same verdict, score
and reason. Keys of labels and taints, names of resources, quantities, times and the structure stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as with_fields
from typing import Any

import msgspec
from msgspec.structs import replace

from kschedctl.api.columns import Texts, texts_column
from kschedctl.api.objects import NodeAffinity, Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS, Cluster, Gap
from kschedctl.sources.anonymize_expressions import Expressions
from kschedctl.sources.anonymize_fields import Rewriter
from kschedctl.sources.anonymize_labels import Numbers, composed_names

UNREAD = "could not be read"
_DROPPED = ("leaderElection", "clientConnection")


def anonymized(cluster: Cluster) -> tuple[Cluster, dict[str, str]]:
    """The cluster under pseudonyms, and the original of each pseudonym."""
    cluster = with_fields(cluster, pods=PodTable.of(cluster.pods))
    numbers, composed = Numbers.of(cluster), composed_names(cluster)
    expressions = Expressions.of(cluster)
    seen: set[str] = set()

    def collect(text: str) -> str:
        seen.add(text)
        return text

    _rewritten(cluster, Rewriter(_composing(collect, composed), numbers, expressions))
    width = max(len(str(len(seen))), 4)
    pseudonyms = {text: f"x{number:0{width}d}" for number, text in enumerate(sorted(seen))}
    made = _rewritten(cluster, Rewriter(_composing(pseudonyms.__getitem__, composed), numbers, expressions))
    return made, {pseudonym: text for text, pseudonym in pseudonyms.items()}


def _composing(word: Callable[[str], str], composed: Mapping[str, tuple[str, ...]]) -> Callable[[str], str]:
    """A text that others read the parts of keeps its dashes; the empty text stays."""

    def name(text: str) -> str:
        if text in composed:
            return "-".join(map(name, composed[text]))
        return word(text) if text else text

    return name


def _rewritten(cluster: Cluster, rewriter: Rewriter) -> Cluster:
    objects: dict[str, Any] = {
        field: tuple(rewriter.struct(obj) for obj in getattr(cluster, field))
        for kind, field in FIELDS.items()
        if kind != "Pod"
    }
    picture = cluster.picture
    if picture is not None:
        picture = replace(picture, server="", context="", namespace="default", leader="", configured_by="")
    return with_fields(
        cluster,
        pods=_pods(cluster.pods, rewriter),
        configuration=None if cluster.configuration is None else _configuration(cluster.configuration, rewriter),
        gaps={kind: Gap(UNREAD, rewriter.name(gap.namespace)) for kind, gap in cluster.gaps.items()},
        picture=picture,
        origins={},
        warnings=(),
        **objects,
    )


def _pods(pods: Iterable[Pod], rewriter: Rewriter) -> PodTable:
    table, name = PodTable.of(pods), rewriter.name
    return PodTable(
        [rewriter.struct(template) for template in table.templates],
        table.template,
        names=[name(text) for text in table.names],
        uids=texts_column(map(name, table.uids.texts())),
        node=Texts(table.node.codes, [name(text) for text in table.node.values]),
        created=table.created,
        started=table.started,
    )


def _configuration(document: Mapping[str, Any], rewriter: Rewriter) -> dict[str, Any]:
    """Without where the scheduler finds its cluster; node affinity and extenders' addresses under pseudonyms."""
    made: dict[str, Any] = {key: value for key, value in document.items() if key not in _DROPPED}
    if "profiles" in made:
        made["profiles"] = [_profile(profile, rewriter) for profile in made["profiles"] or ()]
    if "extenders" in made:
        made["extenders"] = [_extender(extender, rewriter) for extender in made["extenders"] or ()]
    return made


def _profile(profile: Mapping[str, Any], rewriter: Rewriter) -> dict[str, Any]:
    configs = [_plugin_config(config, rewriter) for config in profile.get("pluginConfig") or ()]
    return {**profile, "pluginConfig": configs} if configs else dict(profile)


def _plugin_config(config: Mapping[str, Any], rewriter: Rewriter) -> dict[str, Any]:
    args = config.get("args") or {}
    if not args.get("addedAffinity"):
        return dict(config)
    affinity = rewriter.struct(msgspec.convert(args["addedAffinity"], NodeAffinity))
    return {**config, "args": {**args, "addedAffinity": msgspec.to_builtins(affinity)}}


def _extender(extender: Mapping[str, Any], rewriter: Rewriter) -> dict[str, Any]:
    kept = {key: value for key, value in extender.items() if key != "tlsConfig"}
    scheme, separator, rest = str(extender.get("urlPrefix", "")).partition("://")
    return {**kept, "urlPrefix": f"{scheme}{separator}{rewriter.name(re.sub('/+$', '', rest))}"}
