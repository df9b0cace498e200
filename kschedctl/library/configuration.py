"""``check_configuration`` and ``effective_configuration`` of kube-scheduler, and ``version_changes``."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.errors import UsageError
from kschedctl.lint.findings.reporting import report_of
from kschedctl.lint.objects.subject import Located, Subject
from kschedctl.lint.scheduler_configuration import checks, effective
from kschedctl.reports.configuration import EffectiveConfiguration
from kschedctl.reports.findings import Findings
from kschedctl.reports.version_changes import VersionChanges
from kschedctl.scheduler.configuration.document import KIND
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.studies import version_changes as study
from kschedctl.text.version import VERSION


def effective_configuration(
    document: JsonObject | None = None,
    *,
    kube_version: str = KUBE_VERSION,
    feature_gates: Mapping[str, bool] | None = None,
) -> EffectiveConfiguration:
    """What a KubeSchedulerConfiguration (dict) does, None for the default one: plugins, weights, arguments.

    Raises ConfigurationError.

    >>> effective_configuration().profiles[0].scheduler_name
    'default-scheduler'
    """
    return effective.effective_configuration(document, FeatureGates(kube_version, feature_gates or {}))


def check_configuration(
    document: JsonObject,
    *,
    kube_version: str = KUBE_VERSION,
    feature_gates: Mapping[str, bool] | None = None,
    nodes: int | None = None,
    place: Located | None = None,
) -> Findings:
    """What is wrong with a KubeSchedulerConfiguration (dict), in a cluster of so many ``nodes``.

    ``place``: where it stands, for lines of a file.

    >>> check_configuration({"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration"}
    ... ).count("error")
    1
    """
    gates = FeatureGates(kube_version, feature_gates or {})
    subject = Subject(KIND, "", document=document, place=place)
    report = report_of(checks.check_configuration(subject, gates, nodes), checked=1)
    return replace(report, tool_version=VERSION)


def version_changes(before: str = "", after: str = "") -> VersionChanges:
    """What differs between the versions of kube-scheduler, or between two: rules, messages, plugins, feature gates.

    Versions as 1.33, for its newest patch, or 1.33.4. Raises UsageError for one alone, ConfigurationError for one that
    is not replayed.

    >>> version_changes("1.36", "1.36").changes
    ()
    """
    if not (before or after):
        return study.version_changes()
    if not (before and after):
        known = before or after
        raise UsageError(f"what is {known} to be compared with?", hint=f"kschedctl versions {known} 1.36")
    return study.between(before, after)
