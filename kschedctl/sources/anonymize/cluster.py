"""Anonymization of a cluster and its KubeSchedulerConfiguration, which replaces equal texts by equal pseudonyms.

Names, keys, label values and images are replaced. Parts of the configuration on which no answer depends are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kschedctl.api.columns import InternedTexts, intern_texts
from kschedctl.api.component_flags import anonymize_api_server, anonymize_autoscaler
from kschedctl.api.container_states import NOT_RECORDED, NotableContainers
from kschedctl.api.copying import replace
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import drop_nulls
from kschedctl.api.kinds import KUEUE_MAP
from kschedctl.api.objects import Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS as KINDS
from kschedctl.cluster import NOT_ASKED_FOR, QUEUE_KINDS, Cluster, Gap
from kschedctl.scheduler.configuration.document import parse_document
from kschedctl.scheduler.framework.arguments import Naming
from kschedctl.scheduler.registry.in_tree import ARGS
from kschedctl.sources.anonymize.custom_resources import anonymize_kueue_configuration
from kschedctl.sources.anonymize.expressions import Expressions
from kschedctl.sources.anonymize.fields import FIELDS
from kschedctl.sources.anonymize.labels import Numbers, find_composed_names
from kschedctl.sources.anonymize.pseudonyms import Pseudonyms
from kschedctl.sources.anonymize.rewriter import Rewriter
from kschedctl.text.printable import strip_url

Document = Mapping[str, Any]


UNREAD = "could not be read"
ALWAYS_KEPT = (
    "names of device attributes, capacities and versions, of plugins and feature gates",
    "quantities, times, priorities, weights, ports, and how many there are of what",
)
"""Descriptions of what is never replaced."""


class AnonymizedCluster(NamedTuple):
    """An anonymized cluster, with what is needed to read it."""

    cluster: Cluster
    """The cluster with pseudonyms."""
    originals: dict[str, str]
    """The original of each pseudonym."""
    stays: tuple[str, ...]
    """Descriptions of what is kept."""


def anonymize_cluster(cluster: Cluster) -> AnonymizedCluster:
    """Replace the names in a cluster by pseudonyms.

    Raises ConfigurationError for a configuration that kube-scheduler rejects, since its contents are unknown.
    """
    if cluster.configuration is not None:
        parse_document(cluster.configuration)
    cluster = replace(cluster, pods=PodTable.from_pods(cluster.pods))
    expressions = Expressions.from_cluster(cluster)
    pseudonyms = Pseudonyms(find_composed_names(cluster))
    numbers = Numbers.from_cluster(cluster)
    _rewrite_cluster(cluster, Rewriter(FIELDS, pseudonyms, numbers, expressions))
    originals = pseudonyms.assign_pseudonyms()
    rewritten = _rewrite_cluster(cluster, Rewriter(FIELDS, pseudonyms, numbers, expressions))
    return AnonymizedCluster(
        rewritten,
        originals,
        (*_describe_kept_keys(pseudonyms.kept_keys), *ALWAYS_KEPT, *_describe_kept_texts(expressions)),
    )


def _describe_kept_keys(kept_keys: set[str]) -> Iterator[str]:
    """Describe the well-known keys that are kept, if there are any."""
    if keys := sorted(kept_keys - {""}):
        yield f"keys, resources and gates that everybody has and plugins know: {', '.join(keys)}"


def _describe_kept_texts(expressions: Expressions) -> Iterator[str]:
    """Describe the texts in CEL expressions that are kept, if there are any."""
    if expressions.kept_expressions:
        values = f", and the values of the attributes {', '.join(sorted(expressions.computed))}"
        description = f"the texts in {len(expressions.kept_expressions)} CEL expressions that compute with them"
        yield description + (values if expressions.computed else "")
    if expressions.drivers_stay:
        yield "the names of device drivers, as a CEL expression computes with them"


def _rewrite_cluster(cluster: Cluster, rewriter: Rewriter) -> Cluster:
    """Return the cluster with everything in it rewritten, without messages, origins and the autoscaler's ConfigMaps."""
    objects: dict[str, object] = {
        field: tuple(rewriter.rewrite_struct(obj) for obj in getattr(cluster, field))
        for kind, field in KINDS.items()
        if kind not in ("Pod", "ConfigMap")
    }
    provenance = cluster.provenance
    if provenance is not None:
        provenance = replace(
            provenance, server="", context="", namespace="default", leader="", configured_by="", instances=()
        )
    kueue_maps = [config_map for config_map in cluster.config_maps if config_map.metadata.name == KUEUE_MAP]
    objects["config_maps"] = tuple(anonymize_kueue_configuration(config_map, rewriter) for config_map in kueue_maps)
    gaps = dict(cluster.gaps)
    if len(kueue_maps) < len(cluster.config_maps):
        gaps["ConfigMap"] = Gap(UNREAD)  # their texts name groups of nodes in ways that nothing here replaces
    return replace(
        cluster,
        pods=_rewrite_pods(cluster.pods, rewriter),
        autoscaler=cluster.autoscaler and anonymize_autoscaler(cluster.autoscaler),
        api_server=anonymize_api_server(cluster.api_server),
        configuration=None
        if cluster.configuration is None
        else anonymize_configuration(cluster.configuration, rewriter),
        gaps={kind: Gap(_choose_gap_reason(kind, gap), rewriter.name(gap.namespace)) for kind, gap in gaps.items()},
        provenance=provenance,
        origins={},
        warnings=(),
        **objects,
    )


def _choose_gap_reason(kind: str, gap: Gap) -> str:
    """Return the reason why a kind is not covered, without the API server's own message.

    For objects of batch queues, the reason that they were not requested is kept, because files need not contain them.
    """
    return gap.why if kind in QUEUE_KINDS and gap.why in NOT_ASKED_FOR else UNREAD


def _rewrite_containers(text: str, rewriter: Rewriter) -> str:
    """Rewrite the encoded container states of a pod."""
    if text == NOT_RECORDED:
        return text
    return NotableContainers(
        *(tuple(map(rewriter.rewrite_struct, statuses)) for statuses in NotableContainers.from_text(text))
    ).to_text()


def _rewrite_pods(pods: Iterable[Pod], rewriter: Rewriter) -> PodTable:
    """Rewrite the pods, and leave out their messages."""
    table = PodTable.from_pods(pods)
    columns = table.columns
    empty_texts = intern_texts([""] * len(table))
    return PodTable(
        [rewriter.rewrite_struct(template) for template in table.templates],
        table.template,
        [rewriter.name(text) for text in table.names],
        columns._replace(
            uids=intern_texts(map(rewriter.name, columns.uids.texts())),
            node=InternedTexts(columns.node.codes, [rewriter.name(text) for text in columns.node.values]),
            message=empty_texts,
            unschedulable_message=empty_texts,
            containers=columns.containers._replace(
                values=[_rewrite_containers(text, rewriter) for text in columns.containers.values]
            ),
        ),
    )


_DROPPED = frozenset({"leaderElection", "clientConnection"})


_VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "bindVerb": "bind"}
"""Neutral values for parts of an extender's URLs, of which it only matters whether they are set."""


def anonymize_configuration(document: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace schedulers' names, resources, keys, node affinities and extenders' addresses in a valid document.

    The connection to the cluster, TLS settings and the arguments of plugins that are not in-tree are left out, since
    the content of the latter is unknown.
    """
    anonymized = {key: value for key, value in drop_nulls(document).items() if key not in _DROPPED}
    if "profiles" in anonymized:
        anonymized["profiles"] = [_anonymize_profile(profile, rewriter) for profile in anonymized["profiles"]]
    if "extenders" in anonymized:
        anonymized["extenders"] = [_anonymize_extender(extender, rewriter) for extender in anonymized["extenders"]]
    return anonymized


def _anonymize_profile(profile: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace the names in a profile."""
    anonymized = dict(profile)
    if "schedulerName" in anonymized:
        anonymized["schedulerName"] = rewriter.object_name(anonymized["schedulerName"])
    if "pluginConfig" in anonymized:
        anonymized["pluginConfig"] = [
            _anonymize_plugin_config(config, rewriter) for config in anonymized["pluginConfig"]
        ]
    return anonymized


def _anonymize_plugin_config(config: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace the names in a plugin's arguments, or drop the arguments if the plugin is not in-tree."""
    name = config.get("name", "")
    args = config.get("args")
    if name not in ARGS:
        return {"name": name}
    naming = getattr(ARGS[name], "naming", {})
    return {**config, "args": _replace_names(args, naming, rewriter)} if args and naming else dict(config)


def _replace_names(value: object, naming: Mapping[str, Naming], rewriter: Rewriter, field: str = "") -> object:
    """Replace the names in a plugin's arguments, or in one field of them, as the plugin's ``naming`` specifies."""
    field_naming = naming.get(field)
    if isinstance(field_naming, type):
        return msgspec.to_builtins(rewriter.rewrite_struct(convert_builtins(value, field_naming)))
    if isinstance(value, Mapping):
        return {key: _replace_names(element, naming, rewriter, key) for key, element in value.items()}
    if isinstance(value, list):
        return [_replace_names(element, naming, rewriter, field) for element in value]
    return getattr(rewriter, field_naming)(value) if field_naming else value


def _anonymize_extender(extender: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace an extender's address, verbs and resources, and drop its TLS settings."""
    anonymized = {key: value for key, value in extender.items() if key != "tlsConfig"}
    scheme, separator, rest = strip_url(str(anonymized.get("urlPrefix", ""))).partition("://")
    anonymized["urlPrefix"] = (
        f"{scheme}{separator}{rewriter.name(rest.rstrip('/'))}" if separator else rewriter.name(scheme)
    )
    for field, verb in _VERBS.items():
        if anonymized.get(field) not in (None, "", verb):
            anonymized[field] = rewriter.name(anonymized[field])
    if "managedResources" in anonymized:
        anonymized["managedResources"] = _replace_names(anonymized["managedResources"], {"name": "resource"}, rewriter)
    return anonymized
