"""``lint``: what in manifests, or in a cluster, breaks scheduling?

The rules are in ``kschedctl/lint``. ``described_cluster`` finds a cluster among the manifests; ``fixes`` and ``diff``
apply safe fixes; ``filters`` and ``settings`` choose rules.
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
from kschedctl.commands.lint.described_cluster import DescribedCluster, cluster_among
from kschedctl.errors import UsageError
from kschedctl.lint.engine import build_findings, choose_rules, find_problems
from kschedctl.lint.findings.reporting import REPORT_EVERYTHING, Reporting
from kschedctl.lint.findings.scope import ALL_OBJECTS, LintScope
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import Rule, RuleProfile, Severity
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.reports.findings import Findings, PassedOver
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.sources.documents.files import find_files, from_here
from kschedctl.sources.repository import HINTS, Repository, read_repository
from kschedctl.text.version import VERSION


class Destination(NamedTuple):
    """Where manifests go: the namespace of those that name none, paths that go to one cluster, files that do."""

    namespace: str
    together: list[list[str]]
    named: list[str]


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
    """What in manifests, files and folders, or without any in the ``cluster`` itself, makes scheduling go wrong.

    With a ``cluster`` rules that need nodes and pods run for manifests too. ``select`` and ``ignore``: ids of rules, *
    stands for anything; ``profile``: default, strict or all; ``severity``: findings from this one up (error, warning,
    note). ``namespace``: of manifests that name none. ``instance_types``: all that Karpenter may launch, as kwok's
    instance_types.json has them. No settings file counts. Raises UsageError, InputError.

    >>> import kschedctl
    >>> budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "none"}}
    >>> cluster = kschedctl.Cluster.from_objects([{**budget, "spec": {"minAvailable": 0}}])
    >>> lint(cluster=cluster, select=["pdb-*"]).kind
    'Findings'
    """
    gates = FeatureGates(kube_version, feature_gates or {})
    described = None if cluster is None else DescribedCluster(cluster)
    names = [os.fspath(path) for path in paths]
    files = [from_here(file) for file in find_files(names, recursive=True).files]
    manifests = read_repository(files) if names else None
    goes = Destination(namespace, [], [from_here(path) for path in names if not os.path.isdir(path)])
    context = lint_context(manifests, described, gates, goes, instance_types)
    rules = choose_rules(select, ignore, RuleProfile(profile))
    condensed = not select and profile != RuleProfile.ALL
    reporting = replace(REPORT_EVERYTHING, min_severity=Severity(severity), condensed=condensed)
    return told(context, rules, find_problems(context, rules), reporting)


def told(
    context: LintContext,
    rules: Sequence[Rule],
    problems: Iterable[tuple[Rule, Problem]],
    reporting: Reporting,
    scope: LintScope = ALL_OBJECTS,
) -> Findings:
    """The findings, with the version of the program that made them."""
    return replace(build_findings(context, rules, problems, reporting, scope), tool_version=VERSION)


def lint_context(
    manifests: Repository | None,
    cluster: DescribedCluster | None,
    gates: FeatureGates,
    goes: Destination,
    types: Sequence[JsonObject] | None = None,
) -> LintContext:
    """What rules look at: the manifests, or without any the cluster. Raises UsageError, InputError."""
    context = _linted_alone(manifests, cluster, gates, goes)
    return context if types is None else replace(context, instance_types=read_instance_types(types))


def _linted_alone(
    manifests: Repository | None, cluster: DescribedCluster | None, gates: FeatureGates, goes: Destination
) -> LintContext:
    if manifests is None:
        if cluster is None or cluster.cluster is None:
            raise UsageError(
                "nothing to lint", hint="give manifests with -f, or a cluster with --with-cluster or --live"
            )
        return LintContext.from_cluster(cluster.cluster)
    described = cluster or cluster_among(manifests.objects, gates, goes.named)
    located = ((manifest.value, manifest) for manifest in manifests.objects)
    manifests.sets.declare(goes.together)
    context = LintContext.from_manifests(located, described.cluster, gates, goes.namespace, get_sets=manifests.sets.of)
    unreadable = tuple(Subject("File", "", place=place).problem((), place.what) for place in manifests.broken)
    passed_over = tuple(PassedOver(what, where, HINTS.get(what, "")) for what, where in manifests.passed_over.items())
    return replace(
        context,
        invalid=(*context.invalid, *described.faults),
        unreadable=unreadable,
        passed_over=passed_over,
        all_manifests_read=manifests.whole,
        is_self_described=described.own,
        stored_manifests=described.stored,
    )
