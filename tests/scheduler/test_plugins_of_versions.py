"""Check which plugins a configuration may name in each version of kube-scheduler, and the defaults."""

from __future__ import annotations

import pytest

from kschedctl.errors import ConfigurationError
from kschedctl.lint.configuration_rules import check_configuration
from kschedctl.lint.objects.subject import Subject
from kschedctl.scheduler.configuration.configuration import load_configuration
from kschedctl.scheduler.framework.feature_gates import FeatureGates

META = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
LIMITS = ["EBSLimits", "GCEPDLimits", "NodeVolumeLimits", "AzureDiskLimits"]
OLD_LIMITS = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"]


def build_plugins(point, name, how="enabled"):
    return {**META, "profiles": [{"plugins": {point: {how: [{"name": name}]}}}]}


def list_filters(version, document=None):
    found = load_configuration(document, FeatureGates(version)).profiles["default-scheduler"]
    assert found.plugins["preFilter"][-1] in found.plugins["filter"]
    return list(found.plugins["filter"])


def test_limits_of_in_tree_disks_were_default_plugins():
    found = list_filters("1.30")
    place = found.index("EBSLimits")
    assert found[place - 1 : place + 5] == ["VolumeRestrictions", *LIMITS, "VolumeBinding"]
    assert [name for name in list_filters("1.31") if name.endswith("Limits")] == ["NodeVolumeLimits"]


@pytest.mark.parametrize("name", OLD_LIMITS)
def test_limits_of_in_tree_disks_in_a_profile(name):
    """Upstream's validation rejects these plugins in 1.31, but not under multiPoint. In 1.32 they no longer exist."""
    assert name in list_filters("1.30", build_plugins("filter", name))
    assert name in list_filters("1.30", build_plugins("multiPoint", name))
    assert list_filters("1.31", build_plugins("multiPoint", name))[-1] == name
    refused = f'profiles\\[0\\].plugins.filter.enabled\\[0\\]: Invalid value: "{name}": was invalid in version'
    for version in ("1.31", "1.32", "1.36"):
        with pytest.raises(ConfigurationError, match=refused):
            list_filters(version, build_plugins("filter", name))
    with pytest.raises(ConfigurationError, match=f'PreFilterPlugin "{name}" does not exist'):
        list_filters("1.32", build_plugins("multiPoint", name))


def test_arguments_of_limits_of_in_tree_disks():
    document = {**META, "profiles": [{"pluginConfig": [{"name": "EBSLimits"}]}]}
    list_filters("1.30", document)
    with pytest.raises(ConfigurationError, match=r'pluginConfig\[0\]: Invalid value: "EBSLimits": was invalid'):
        list_filters("1.31", document)


@pytest.mark.parametrize(("version", "known"), [("1.31", True), ("1.32", False)])
def test_disabling_a_plugin_that_the_version_lacks(version, known):
    subject = Subject("KubeSchedulerConfiguration", "", document=build_plugins("filter", "EBSLimits", "disabled"))
    messages = [problem.message for _, problem in check_configuration(subject, FeatureGates(version))]
    said = "plugin EBSLimits does not exist (EBSLimits was removed in 1.32)"
    assert (said not in messages) == known
