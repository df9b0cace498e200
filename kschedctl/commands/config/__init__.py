"""The command `config`: is this KubeSchedulerConfiguration valid, and what does it do?

The rules are in `kschedctl/lint/configuration_rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.lint import configuration_rules
from kschedctl.lint import effective_configuration as effective
from kschedctl.lint.effective_configuration import EffectiveConfiguration
from kschedctl.lint.objects.subject import Location, Subject
from kschedctl.lint.reporting import build_report
from kschedctl.reports.findings import Findings
from kschedctl.scheduler.configuration.document import KIND
from kschedctl.scheduler.framework.feature_gates import FeatureGates


def effective_configuration(
    document: JsonObject | None = None,
    *,
    kube_version: str = KUBE_VERSION,
    feature_gates: Mapping[str, bool] | None = None,
) -> EffectiveConfiguration:
    """Build the effective form of a KubeSchedulerConfiguration (dict): plugins, weights and arguments.

    Without a document, the effective form is that of the default configuration. Raises ConfigurationError if the
    document is invalid.

    >>> effective_configuration().profiles[0].scheduler_name
    'default-scheduler'
    """
    return effective.build_effective_configuration(document, FeatureGates(kube_version, feature_gates or {}))


def check_configuration(
    document: JsonObject,
    *,
    kube_version: str = KUBE_VERSION,
    feature_gates: Mapping[str, bool] | None = None,
    nodes: int | None = None,
    place: Location | None = None,
) -> Findings:
    """Check a KubeSchedulerConfiguration (dict), optionally for a cluster of `nodes` nodes.

    `place` is the document's location in a file, which findings then refer to.

    >>> check_configuration({"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration"}
    ... ).count("error")
    1
    """
    gates = FeatureGates(kube_version, feature_gates or {})
    subject = Subject(KIND, "", document=document, location=place)
    return build_report(configuration_rules.check_configuration(subject, gates, nodes), checked_count=1)
