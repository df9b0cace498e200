"""`lint`: what breaks scheduling in manifests or in a cluster?

The rules are in `kschedctl/lint`. Read `command` first, which has the options. `settings` reads the settings of a
project and chooses files and objects, `fixes` applies safe fixes, and `page` shows findings. Manifests with nodes
describe a cluster, which is found in this module.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kschedctl.api.api_versions import is_custom_api
from kschedctl.api.copying import replace
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.api.ownership import Owner
from kschedctl.api.versions_read import check_api_version
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.cluster import CLUSTER_SCOPED, Cluster
from kschedctl.errors import InputError, UsageError
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import build_findings, choose_rules, find_all_problems
from kschedctl.lint.objects.manifests import TYPED
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.reporting import ALL_OBJECTS, REPORT_EVERYTHING, LintScope, Reporting
from kschedctl.lint.rule import Rule, RuleProfile, Severity
from kschedctl.reports.findings import Findings, PassedOver
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.sources.builds.build import BuiltObject
from kschedctl.sources.decoding import RESOURCE_FIELDS, decode_document, validate_quantities
from kschedctl.sources.documents.files import find_files, make_relative_path
from kschedctl.sources.documents.place import Place
from kschedctl.sources.documents.positions import LocatedObject
from kschedctl.sources.repository import HINTS, Repository, read_repository
from kschedctl.text.counts import counted

Read = LocatedObject | BuiltObject
log = logging.getLogger(__name__)


class Destination(NamedTuple):
    """The namespaces and clusters to which manifests are applied."""

    namespace: str
    """The namespace of manifests that name none; empty for that of their Helm release, or the default namespace."""
    declared_clusters: list[list[str]]
    """Lists of paths. The manifests under the paths of one list are applied to the same cluster."""
    named_files: list[str]
    """The files that were given by name, not found in a folder."""


def lint(
    paths: Sequence[str | os.PathLike[str]] = (),
    *,
    cluster: Cluster | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    profile: str = RuleProfile.DEFAULT,
    severity: str = Severity.NOTE,
    namespace: str = "",
    kube_version: str = KUBE_VERSION,
    feature_gates: Mapping[str, bool] | None = None,
    instance_types: Sequence[JsonObject] | None = None,
) -> Findings:
    """Find what makes scheduling go wrong in manifests or, without ``paths``, in the ``cluster`` itself.

    With a ``cluster``, rules that need nodes and pods run for manifests, too. ``select`` and ``ignore`` are rule ids,
    with * as a wildcard. ``profile`` is default, strict or all. ``severity`` is the lowest severity to report (error,
    warning, note). Manifests without a namespace are applied to ``namespace``. ``instance_types`` are all types that
    Karpenter may launch, in the format of kwok's instance_types.json. No settings file is read. Raises UsageError if
    there is nothing to lint or a rule is unknown, and InputError if an input is malformed.

    >>> import kschedctl
    >>> budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "none"}}
    >>> cluster = kschedctl.Cluster.from_objects([{**budget, "spec": {"minAvailable": 0}}])
    >>> lint(cluster=cluster, select=["pdb-*"]).kind
    'Findings'
    """
    gates = FeatureGates(kube_version, feature_gates or {})
    described_cluster = None if cluster is None else DescribedCluster(cluster)
    names = [os.fspath(path) for path in paths]
    files = [make_relative_path(file) for file in find_files(names, recursive=True).files]
    manifests = read_repository(files) if names else None
    named_files = [make_relative_path(path) for path in names if not os.path.isdir(path)]
    destination = Destination(namespace, declared_clusters=[], named_files=named_files)
    context = build_context(manifests, described_cluster, gates, destination, instance_types)
    rules = choose_rules(select, ignore, RuleProfile(profile))
    is_condensed = not select and profile != RuleProfile.ALL
    reporting = replace(REPORT_EVERYTHING, min_severity=Severity(severity), condensed=is_condensed)
    return build_report(context, rules, find_all_problems(context, rules), reporting)


def build_report(
    context: LintContext,
    rules: Sequence[Rule],
    problems: Iterable[tuple[Rule, Problem]],
    reporting: Reporting,
    scope: LintScope = ALL_OBJECTS,
) -> Findings:
    """Build the report of the problems in scope, with the version of this program."""
    return build_findings(context, rules, problems, reporting, scope)


def build_context(
    manifests: Repository | None,
    cluster: DescribedCluster | None,
    gates: FeatureGates,
    destination: Destination,
    instance_types: Sequence[JsonObject] | None = None,
) -> LintContext:
    """Build the context for the rules from the manifests and their cluster, or from the cluster alone.

    Without `cluster`, manifests get the cluster that they describe. Raises UsageError if there are neither manifests
    nor a cluster, and InputError for invalid instance types.
    """
    if manifests is not None:
        context = _build_manifest_context(manifests, cluster, gates, destination)
    elif cluster is not None and cluster.cluster is not None:
        context = LintContext.from_cluster(cluster.cluster)
    else:
        raise UsageError("nothing to lint", hint="pass manifests with -f, or a cluster with --with-cluster or --live")
    if instance_types is None:
        return context
    return replace(context, instance_types=read_instance_types(instance_types))


def _build_manifest_context(
    manifests: Repository, cluster: DescribedCluster | None, gates: FeatureGates, destination: Destination
) -> LintContext:
    """Build the context of manifests and of their cluster.

    By default, this is the cluster that the manifests describe. Files that cannot be read or are skipped are recorded
    in the context.
    """
    manifests.sets.add_declared_clusters(destination.declared_clusters)
    described_cluster = cluster or _build_cluster_from_manifests(manifests.objects, gates, destination.named_files)
    located = ((manifest.value, manifest) for manifest in manifests.objects)
    context = LintContext.from_manifests(
        located, described_cluster.cluster, gates, destination.namespace, get_sets=manifests.sets.get_applied_sets
    )

    # Record the files that cannot be read or are skipped, and how the cluster is described
    unreadable = tuple(
        Subject("File", "", location=broken).build_problem((), broken.message) for broken in manifests.broken
    )
    passed_over = tuple(
        PassedOver(description, places, HINTS.get(description, ""))
        for description, places in manifests.passed_over.items()
    )
    return replace(
        context,
        invalid=(*context.invalid, *described_cluster.problems),
        unreadable=unreadable,
        passed_over=passed_over,
        all_manifests_read=manifests.is_complete,
        is_self_described=described_cluster.is_self_described,
        stored_manifests=described_cluster.stored_manifests,
    )


class DescribedCluster(NamedTuple):
    """The cluster of the manifests, with further data about it from files."""

    cluster: Cluster | None
    """The cluster, None if it is unknown."""
    problems: tuple[Problem, ...] = ()
    """Problems of kinds for which lint itself has no rules."""
    is_self_described: bool = False
    """True if the linted manifests describe the cluster."""
    stored_manifests: Mapping[Owner, JsonObject] = MappingProxyType({})
    """The manifests of the cluster's workloads in its files."""


def _build_cluster_from_manifests(
    manifests: Sequence[Read], gates: FeatureGates, named_files: Collection[str] = ()
) -> DescribedCluster:
    """Build the cluster from the manifests, if they contain its nodes.

    The result contains no cluster if there are no nodes, if a node cannot be read, or if the nodes may belong to only
    some of the manifests. In the last case, a warning is logged. `named_files` has the files that were given by name.
    Their nodes are taken to belong to all manifests.
    """
    known_manifests = [
        manifest
        for manifest in manifests
        if manifest.value["kind"] in KINDS and not is_custom_api(str(manifest.value.get("apiVersion") or ""))
    ]
    nodes = [manifest for manifest in known_manifests if manifest.value["kind"] == "Node"]
    if not nodes:
        return DescribedCluster(None, is_self_described=True)
    if not _do_nodes_cover_all_manifests(nodes, manifests, named_files):
        log.warning(
            "note: the nodes in %s are linted only as manifests; if they are the target cluster, pass "
            "--with-cluster %s",
            nodes[0].file,
            nodes[0].file,
        )
        return DescribedCluster(None, is_self_described=True)
    _warn_about_changed_objects({node.file for node in nodes}, known_manifests)
    return _build_described_cluster(known_manifests, gates)


def _warn_about_changed_objects(cluster_files: Collection[str], manifests: Iterable[Read]) -> None:
    """Log a warning if another file has a different version of an object in the files that describe the cluster.

    Such versions are linted as alternatives, and most findings about one of them are merged with those about the other.
    """
    cluster_file_by_object: dict[str, str] = {}
    other_manifests: list[tuple[str, Read]] = []
    for manifest in manifests:
        subject = _get_subject(manifest)
        if subject.kind == "Namespace" or not subject.name:  # Namespaces are often repeated where they are needed
            continue
        namespace = str(object_at(manifest.value, "metadata").get("namespace") or DEFAULT_NAMESPACE)
        described_object = str(replace(subject, namespace="" if subject.kind in CLUSTER_SCOPED else namespace))
        if manifest.file in cluster_files:
            cluster_file_by_object[described_object] = manifest.file
        else:
            other_manifests.append((described_object, manifest))
    changed = [(name, manifest.file) for name, manifest in other_manifests if name in cluster_file_by_object]
    if not changed:
        return
    name, file = changed[0]
    cluster_file = cluster_file_by_object[name]
    more = f" (and {counted(len(changed) - 1, 'more object')})" if len(changed) > 1 else ""
    log.warning(
        "note: %s is in %s and in %s%s; if %s describes the cluster, pass it as --with-cluster %s "
        "instead of linting both",
        *(name, file, cluster_file, more, cluster_file, cluster_file),
    )


def _do_nodes_cover_all_manifests(
    nodes: Sequence[Read], manifests: Sequence[Read], named_files: Collection[str]
) -> bool:
    """Return whether the files with nodes describe the cluster of all manifests.

    They do if all of these files were given by name. Otherwise, node names must be unique, and every manifest must be
    in the common folder of these files or below it, because nodes in a repository's folder of examples or tests say
    nothing about its other manifests.
    """
    files = {manifest.file for manifest in nodes}
    if files <= set(named_files):
        return True
    if len({_get_subject(manifest).name for manifest in nodes}) < len(nodes):
        return False
    top = os.path.commonpath([_get_folder(file) for file in files])
    return all(os.path.commonpath([top, _get_folder(manifest.file)]) == top for manifest in manifests)


def _get_folder(file: str) -> str:
    """Return the absolute folder of a file."""
    return os.path.dirname(os.path.abspath(file))


def _build_described_cluster(manifests: Iterable[Read], gates: FeatureGates) -> DescribedCluster:
    """Build the cluster of the readable manifests. If a node cannot be read, the cluster is None.

    Manifests that cannot be read become problems, unless lint's rules report them anyway.
    """
    objects = []
    problems = []
    all_nodes_read = True
    for manifest in manifests:
        kind = str(manifest.value["kind"])
        fault = _describe_manifest_fault(manifest, kind)
        if not fault:
            objects.append(manifest.value)
            continue
        if kind == "Node":
            all_nodes_read = False
        if kind not in TYPED and kind not in POD_TEMPLATE_PATHS:
            problems.append(_get_subject(manifest).build_problem((), fault))
    if not all_nodes_read:
        return DescribedCluster(None, tuple(problems), is_self_described=True)
    cluster = Cluster.from_objects(objects, feature_gates=gates.overrides, kube_version=gates.version)
    return DescribedCluster(cluster, tuple(problems), is_self_described=True)


def _describe_manifest_fault(manifest: Read, kind: str) -> str:
    """Return why a manifest cannot be read, such as `field: what is wrong`, or "" if it can be read."""
    place = Place(file="")  # the place is not shown
    try:
        check_api_version(kind, str(manifest.value.get("apiVersion") or ""), place.error)
        obj = decode_document(manifest.value, KINDS[kind].struct, place)
        if kind in RESOURCE_FIELDS:
            validate_quantities(RESOURCE_FIELDS[kind](obj), lambda: place)
    except InputError as error:
        field = _get_field_of_error(error, place)
        return f"{field}: {error.what}" if field else error.what
    return ""


def _get_field_of_error(error: InputError, place: Place) -> str:
    """Return the field of the object at the place that the error is about, or "" if it is about the whole object.

    >>> place = Place("web.yaml")
    >>> _get_field_of_error(place.error("expected int", "spec.replicas"), place)
    'spec.replicas'
    >>> _get_field_of_error(place.error("expected an object"), place)
    ''
    """
    return error.where.removeprefix(str(place)).removeprefix(", ")


def _get_subject(manifest: Read) -> Subject:
    """Build the subject of a manifest, without a namespace."""
    metadata = manifest.value.get("metadata")
    name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
    return Subject(str(manifest.value["kind"]), name, document=manifest.value, location=manifest)
