"""A Cluster under pseudonyms: names, keys, label values and images are replaced alike wherever they stand.

Pseudonyms sort as the originals do and are equal where those are, so that every plugin comes to the same verdict, score
and reason. What everybody has, quantities, times and the structure stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kschedctl.api.columns import InternedTexts, intern_texts
from kschedctl.api.container_states import NOT_RECORDED, NotableContainers
from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.api.observed.api_server import anonymize
from kschedctl.api.observed.autoscaler import without_names
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS as KINDS
from kschedctl.cluster import NOT_ASKED_FOR, QUEUE_KINDS, Cluster, Gap
from kschedctl.scheduler.configuration.document import parse_document
from kschedctl.sources.anonymize.configuration import configuration_under_pseudonyms
from kschedctl.sources.anonymize.expressions import Expressions
from kschedctl.sources.anonymize.fields import FIELDS
from kschedctl.sources.anonymize.labels import Numbers, composed_names
from kschedctl.sources.anonymize.pseudonyms import Pseudonyms
from kschedctl.sources.anonymize.rewriter import Rewriter

UNREAD = "could not be read"
STAYS = (
    "names of device attributes, capacities and versions, of plugins and feature gates",
    "quantities, times, priorities, weights, ports, and how many there are of what",
)
"""What is never replaced."""


class Anonymized(NamedTuple):
    """The cluster under pseudonyms, the original of each pseudonym, and what stays, in words."""

    cluster: Cluster
    originals: dict[str, str]
    stays: tuple[str, ...]


def anonymized(cluster: Cluster) -> Anonymized:
    """Raises ConfigurationError for a configuration that kube-scheduler would refuse: what is in it is not known."""
    if cluster.configuration is not None:
        parse_document(cluster.configuration)
    cluster = replace(cluster, pods=PodTable.from_pods(cluster.pods))
    expressions, pseudonyms = Expressions.of(cluster), Pseudonyms(composed_names(cluster))
    numbers = Numbers.of(cluster)
    _rewritten(cluster, Rewriter(FIELDS, pseudonyms, numbers, expressions))
    originals = pseudonyms.settle()
    made = _rewritten(cluster, Rewriter(FIELDS, pseudonyms, numbers, expressions))
    return Anonymized(made, originals, (*_of_keys(pseudonyms.stays), *STAYS, *_of_expressions(expressions)))


def _of_keys(stays: set[str]) -> Iterator[str]:
    if keys := sorted(stays - {""}):
        yield f"keys, resources and gates that everybody has and plugins know: {', '.join(keys)}"


def _of_expressions(expressions: Expressions) -> Iterator[str]:
    if expressions.open:
        values = f", and the values of the attributes {', '.join(sorted(expressions.computed))}"
        number = f"the texts in {len(expressions.open)} CEL expressions that compute with them"
        yield number + (values if expressions.computed else "")
    if expressions.drivers_stay:
        yield "the names of device drivers, as a CEL expression computes with them"


def _rewritten(cluster: Cluster, rewriter: Rewriter) -> Cluster:
    objects: dict[str, object] = {
        field: tuple(rewriter.struct(obj) for obj in getattr(cluster, field))
        for kind, field in KINDS.items()
        if kind not in ("Pod", "ConfigMap")
    }
    provenance = cluster.provenance
    if provenance is not None:
        provenance = replace(
            provenance, server="", context="", namespace="default", leader="", configured_by="", instances=()
        )
    objects["config_maps"], gaps = (), dict(cluster.gaps)
    if cluster.config_maps:
        gaps["ConfigMap"] = Gap(UNREAD)  # their texts name groups of nodes in ways that nothing here replaces
    return replace(
        cluster,
        pods=_pods(cluster.pods, rewriter),
        autoscaler=cluster.autoscaler and without_names(cluster.autoscaler),
        api_server=anonymize(cluster.api_server),
        configuration=None
        if cluster.configuration is None
        else configuration_under_pseudonyms(cluster.configuration, rewriter),
        gaps={kind: Gap(_why_unread(kind, gap), rewriter.name(gap.namespace)) for kind, gap in gaps.items()},
        provenance=provenance,
        origins={},
        warnings=(),
        **objects,
    )


def _why_unread(kind: str, gap: Gap) -> str:
    """Return why a kind is not covered, without an API server's words.

    Whether anybody asked for the kinds of what waits elsewhere stays: files need not hold them.
    """
    return gap.why if kind in QUEUE_KINDS and gap.why in NOT_ASKED_FOR else UNREAD


def _containers(text: str, rewriter: Rewriter) -> str:
    if text == NOT_RECORDED:
        return text
    return NotableContainers(
        *(tuple(map(rewriter.struct, statuses)) for statuses in NotableContainers.from_text(text))
    ).to_text()


def _pods(pods: Iterable[Pod], rewriter: Rewriter) -> PodTable:
    table, name = PodTable.from_pods(pods), rewriter.name
    columns = table.columns
    nothing = intern_texts([""] * len(table))
    return PodTable(
        [rewriter.struct(template) for template in table.templates],
        table.template,
        [name(text) for text in table.names],
        columns._replace(
            uids=intern_texts(map(name, columns.uids.texts())),
            node=InternedTexts(columns.node.codes, [name(text) for text in columns.node.values]),
            message=nothing,
            unschedulable_message=nothing,
            containers=columns.containers._replace(
                values=[_containers(text, rewriter) for text in columns.containers.values]
            ),
        ),
    )
