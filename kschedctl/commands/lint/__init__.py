"""`lint`: what breaks scheduling in manifests or in a cluster?

The rules are in `kschedctl/lint`. Read `command` first, which has the options. `settings` reads the settings of a
project and chooses files and objects, `described_cluster` finds a cluster among the manifests, `fixes` applies safe
fixes, and `page` shows findings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.cluster import Cluster
from kschedctl.commands.lint.described_cluster import DescribedCluster, find_described_cluster
from kschedctl.errors import UsageError
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import build_findings, choose_rules, find_all_problems
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.reporting import ALL_OBJECTS, REPORT_EVERYTHING, LintScope, Reporting
from kschedctl.lint.rule import Rule, RuleProfile, Severity
from kschedctl.reports.findings import Findings, PassedOver
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.sources.documents.files import find_files, make_relative_path
from kschedctl.sources.repository import HINTS, Repository, read_repository


class Destination(NamedTuple):
    """The namespaces and clusters to which manifests are applied."""

    namespace: str
    """The namespace of manifests that name none; empty for that of their Helm release, or the default namespace."""
    together: list[list[str]]
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
    Karpenter may launch, in the format of kwok's instance_types.json. No settings file is read. Raises UsageError and
    InputError.

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
    destination = Destination(namespace, [], [make_relative_path(path) for path in names if not os.path.isdir(path)])
    context = build_context(manifests, described_cluster, gates, destination, instance_types)
    rules = choose_rules(select, ignore, RuleProfile(profile))
    condensed = not select and profile != RuleProfile.ALL
    reporting = replace(REPORT_EVERYTHING, min_severity=Severity(severity), condensed=condensed)
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
    """Build the context for the rules, from the manifests or, if there are none, from the cluster.

    Raises UsageError if there is neither, and InputError for invalid instance types.
    """
    if manifests is not None:
        context = _build_manifest_context(manifests, cluster, gates, destination)
    elif cluster is not None and cluster.cluster is not None:
        context = LintContext.from_cluster(cluster.cluster)
    else:
        raise UsageError("nothing to lint", hint="name manifests with -f, or a cluster with --with-cluster or --live")
    if instance_types is None:
        return context
    return replace(context, instance_types=read_instance_types(instance_types))


def _build_manifest_context(
    manifests: Repository, cluster: DescribedCluster | None, gates: FeatureGates, destination: Destination
) -> LintContext:
    """Build the context of manifests and of their cluster, by default the one that the manifests describe."""
    described_cluster = cluster or find_described_cluster(manifests.objects, gates, destination.named_files)
    located = ((manifest.value, manifest) for manifest in manifests.objects)
    manifests.sets.declare_clusters(destination.together)
    context = LintContext.from_manifests(
        located, described_cluster.cluster, gates, destination.namespace, get_sets=manifests.sets.get_applied_sets
    )
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
