"""Anonymization of a cluster and its KubeSchedulerConfiguration, which replaces equal strings with equal pseudonyms.

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
from kschedctl.cluster import NOT_ASKED_FOR, QUEUE_KINDS, Cluster, Gap, Provenance
from kschedctl.scheduler.configuration.document import parse_document
from kschedctl.scheduler.framework.arguments import Naming
from kschedctl.scheduler.in_tree_plugins import ARGS
from kschedctl.sources.anonymize.custom_resources import anonymize_kueue_configuration
from kschedctl.sources.anonymize.expressions import Expressions
from kschedctl.sources.anonymize.fields import FIELDS
from kschedctl.sources.anonymize.pseudonyms import Numbers, Pseudonyms, find_composed_names
from kschedctl.sources.anonymize.rewriter import Rewriter
from kschedctl.text.counts import agreeing, counted
from kschedctl.text.printable import strip_url

Document = Mapping[str, Any]


UNREAD = "could not be read"
ALWAYS_KEPT = (
    "names of device attributes, capacities and versions, of plugins and feature gates",
    "quantities, times, priorities, weights, ports, and the number of objects of each kind",
)
"""Descriptions of what is never replaced."""


class AnonymizedCluster(NamedTuple):
    """An anonymized cluster, with the originals of its pseudonyms and descriptions of what was kept."""

    cluster: Cluster
    """The cluster with pseudonyms."""
    originals: dict[str, str]
    """The original of each pseudonym."""
    stays: tuple[str, ...]
    """Descriptions of what is kept."""


def anonymize_cluster(cluster: Cluster) -> AnonymizedCluster:
    """Return an anonymized copy of the cluster, with the original of each pseudonym and descriptions of what was kept.

    Raises ConfigurationError if kube-scheduler rejects the configuration, because its contents are then unknown.
    """
    if cluster.configuration is not None:
        parse_document(cluster.configuration)  # only validates it
    cluster = replace(cluster, pods=PodTable.from_pods(cluster.pods))
    expressions = Expressions.from_cluster(cluster)
    pseudonyms = Pseudonyms(find_composed_names(cluster))
    numbers = Numbers.from_cluster(cluster)

    # Pseudonyms sort like their originals, so a first pass has to collect all strings before any is replaced.
    _rewrite_cluster(cluster, Rewriter(FIELDS, pseudonyms, numbers, expressions))
    originals = pseudonyms.assign_pseudonyms()
    rewritten = _rewrite_cluster(cluster, Rewriter(FIELDS, pseudonyms, numbers, expressions))
    return AnonymizedCluster(
        rewritten,
        originals,
        (*_describe_kept_keys(pseudonyms.kept_keys), *ALWAYS_KEPT, *_describe_strings_in_expressions(expressions)),
    )


def _describe_kept_keys(kept_keys: set[str]) -> Iterator[str]:
    """Yield a description of the well-known keys that are kept, if there are any."""
    if keys := sorted(kept_keys - {""}):
        yield f"well-known keys, resources and scheduling gates: {', '.join(keys)}"


def _describe_strings_in_expressions(expressions: Expressions) -> Iterator[str]:
    """Yield descriptions of the strings that stay readable because CEL expressions do more than compare them.

    The first description counts these expressions and lists the attributes whose values are kept for them. The second
    is yielded if the names of device drivers are kept.
    """
    count = len(expressions.kept_expressions)
    if count:
        verb = agreeing(count, "computes", "compute")
        description = f"strings in {counted(count, 'CEL expression')} that {verb} with them"
        if expressions.kept_attributes:
            description += f", and the values of the attributes {', '.join(sorted(expressions.kept_attributes))}"
        yield description
    if expressions.keeps_drivers:
        yield "names of device drivers, because a CEL expression computes with them"


def _rewrite_cluster(cluster: Cluster, rewriter: Rewriter) -> Cluster:
    """Return the cluster with all objects, the configuration and the gaps rewritten.

    Warnings, the autoscaler's ConfigMaps and the objects' files are dropped, as well as the names of the server, the
    context and the scheduler's instances. If ConfigMaps were dropped, the kind ConfigMap becomes a gap.
    """
    # Objects of kinds that need no special treatment
    objects: dict[str, object] = {}
    for kind, field in KINDS.items():
        if kind not in ("Pod", "ConfigMap"):
            objects[field] = tuple(map(rewriter.rewrite_struct, getattr(cluster, field)))

    # Only Kueue's ConfigMap is kept. An autoscaler's ConfigMap names node groups, which cannot be anonymized
    kueue_maps = [config_map for config_map in cluster.config_maps if config_map.metadata.name == KUEUE_MAP]
    objects["config_maps"] = tuple(anonymize_kueue_configuration(config_map, rewriter) for config_map in kueue_maps)
    gaps = dict(cluster.gaps)
    if len(kueue_maps) < len(cluster.config_maps):
        gaps["ConfigMap"] = Gap(UNREAD)

    configuration = cluster.configuration
    return replace(
        cluster,
        pods=_rewrite_pods(cluster.pods, rewriter),
        autoscaler=cluster.autoscaler and anonymize_autoscaler(cluster.autoscaler),
        api_server=anonymize_api_server(cluster.api_server),
        configuration=None if configuration is None else anonymize_configuration(configuration, rewriter),
        gaps={
            kind: Gap(_choose_gap_reason(kind, gap), rewriter.replace_name(gap.namespace)) for kind, gap in gaps.items()
        },
        provenance=None if cluster.provenance is None else _anonymize_provenance(cluster.provenance),
        origins={},
        warnings=(),
        **objects,
    )


def _anonymize_provenance(provenance: Provenance) -> Provenance:
    """Return the provenance without the names of the server, the context and the scheduler's instances."""
    return replace(provenance, server="", context="", namespace="default", leader="", configured_by="", instances=())


def _choose_gap_reason(kind: str, gap: Gap) -> str:
    """Return a neutral reason why a kind is not covered, in place of the API server's message.

    One reason is kept: that kinds of batch queues were not requested, because it is no problem if these are missing.
    """
    return gap.why if kind in QUEUE_KINDS and gap.why in NOT_ASKED_FOR else UNREAD


def _rewrite_container_states(text: str, rewriter: Rewriter) -> str:
    """Rewrite the container states of a pod, which are encoded as text. The mark for unrecorded states is kept."""
    if text == NOT_RECORDED:
        return text
    containers = NotableContainers.from_text(text)
    rewritten = NotableContainers(*(tuple(map(rewriter.rewrite_struct, statuses)) for statuses in containers))
    return rewritten.to_text()


def _rewrite_pods(pods: Iterable[Pod], rewriter: Rewriter) -> PodTable:
    """Return a table of the pods with rewritten templates, names, UIDs, nodes and container states.

    The messages in their status and conditions are dropped.
    """
    table = PodTable.from_pods(pods)
    columns = table.columns
    empty_texts = intern_texts([""] * len(table))
    return PodTable(
        [rewriter.rewrite_struct(template) for template in table.templates],
        table.template,
        [rewriter.replace_name(text) for text in table.names],
        columns._replace(
            uids=intern_texts(map(rewriter.replace_name, columns.uids.texts())),
            node=InternedTexts(columns.node.codes, [rewriter.replace_name(text) for text in columns.node.values]),
            message=empty_texts,
            unschedulable_message=empty_texts,
            containers=columns.containers._replace(
                values=[_rewrite_container_states(text, rewriter) for text in columns.containers.values]
            ),
        ),
    )


_DROPPED = frozenset({"leaderElection", "clientConnection"})


_EXTENDER_VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "bindVerb": "bind"}
"""Neutral values for parts of an extender's URLs, of which it only matters whether they are set."""


def anonymize_configuration(document: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace the names of schedulers, resources, keys and extenders in a valid configuration document.

    The connection to the cluster and TLS settings are left out. The arguments of plugins that are not in-tree are left
    out as well, because they may contain anything.
    """
    anonymized = {key: value for key, value in drop_nulls(document).items() if key not in _DROPPED}
    if "profiles" in anonymized:
        anonymized["profiles"] = [_anonymize_profile(profile, rewriter) for profile in anonymized["profiles"]]
    if "extenders" in anonymized:
        anonymized["extenders"] = [_anonymize_extender(extender, rewriter) for extender in anonymized["extenders"]]
    return anonymized


def _anonymize_profile(profile: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace the scheduler name of a profile and the names in its plugins' arguments."""
    anonymized = dict(profile)
    if "schedulerName" in anonymized:
        anonymized["schedulerName"] = rewriter.replace_object_name(anonymized["schedulerName"])
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
    if not args or not naming:
        return dict(config)
    return {**config, "args": _replace_argument_names(args, naming, rewriter)}


def _replace_argument_names(value: object, naming: Mapping[str, Naming], rewriter: Rewriter, field: str = "") -> object:
    """Replace the names in a plugin's arguments, or in the value of one field.

    ``naming`` maps a field to the struct for decoding its value, or to the kind of name that it holds. The rewriter has
    a method for each kind of name. Fields that are not in ``naming`` keep their values.
    """
    field_naming = naming.get(field)
    if isinstance(field_naming, type):
        return msgspec.to_builtins(rewriter.rewrite_struct(convert_builtins(value, field_naming)))
    if isinstance(value, Mapping):
        return {key: _replace_argument_names(element, naming, rewriter, key) for key, element in value.items()}
    if isinstance(value, list):
        return [_replace_argument_names(element, naming, rewriter, field) for element in value]
    if not field_naming:
        return value
    return getattr(rewriter, f"replace_{field_naming}")(value)


def _anonymize_extender(extender: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace an extender's address, verbs and resources, and drop its TLS settings.

    The scheme of the address and verbs with their usual names are kept. Credentials in the address are dropped.
    """
    anonymized = {key: value for key, value in extender.items() if key != "tlsConfig"}
    url = strip_url(str(anonymized.get("urlPrefix", "")))
    scheme, separator, address = url.partition("://")
    if separator:
        anonymized["urlPrefix"] = f"{scheme}{separator}{rewriter.replace_name(address.rstrip('/'))}"
    else:
        anonymized["urlPrefix"] = rewriter.replace_name(url)
    for field, verb in _EXTENDER_VERBS.items():
        if anonymized.get(field) not in (None, "", verb):
            anonymized[field] = rewriter.replace_name(anonymized[field])
    if "managedResources" in anonymized:
        anonymized["managedResources"] = _replace_argument_names(
            anonymized["managedResources"], {"name": "resource"}, rewriter
        )
    return anonymized
