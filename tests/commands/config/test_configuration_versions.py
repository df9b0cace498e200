"""Check what ``config check`` and ``config view`` say about features of other kube-scheduler versions.

kube-scheduler's own words are those of its validation, its strict decoder and its framework; DynamicResourcesArgs came
with 1.34, its bindingTimeout with 1.35, the placement points with 1.36 (staging/src/k8s.io/kube-scheduler/config/v1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cli.main import main
from kschedctl.errors import ConfigurationError
from kschedctl.lint.configuration_rules import check_configuration
from kschedctl.lint.objects.subject import Subject, format_path
from kschedctl.scheduler.configuration.configuration import load_configuration
from kschedctl.scheduler.configuration.validation import iter_version_mismatches
from kschedctl.scheduler.framework.feature_gates import FeatureGates

META = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
Json = dict[str, Any]


def set_profile(**profile: Any) -> Json:
    """Return a configuration with one profile."""
    return {**META, "profiles": [{"schedulerName": "a", **profile}]}


def set_plugin(name: str, point: str = "filter", how: str = "enabled") -> Json:
    """Return a configuration that enables or disables a plugin at a point."""
    return set_profile(plugins={point: {how: [{"name": name}]}})


def set_args(**args: Any) -> Json:
    """Return a configuration with arguments of a plugin."""
    return set_profile(pluginConfig=[{"name": "DynamicResources", "args": args}])


def check_fields(version: str, document: Mapping[str, Any], gates: Mapping[str, bool] | None = None) -> dict[str, str]:
    """Return the messages about a configuration by field."""
    found = check_configuration(
        Subject("KubeSchedulerConfiguration", "", document=document), FeatureGates(version, gates)
    )
    return {format_path(problem.path): problem.message for _, problem in found}


REFUSED = [
    ("1.34", set_plugin("NodeDeclaredFeatures"), "profiles[0].plugins.filter.enabled[0].name",
     'FilterPlugin "NodeDeclaredFeatures" does not exist', "NodeDeclaredFeatures needs Kubernetes 1.35"),
    ("1.34", set_plugin("GangScheduling", "multiPoint"), "profiles[0].plugins.multiPoint.enabled[0].name",
     'PreFilterPlugin "GangScheduling" does not exist', "GangScheduling needs Kubernetes 1.35"),
    ("1.36", set_plugin("EBSLimits"), "profiles[0].plugins.filter.enabled[0].name",
     'Invalid value: "EBSLimits": was invalid in version', "EBSLimits was removed in 1.32"),
    ("1.36", set_plugin("EBSLimits", "multiPoint"), "profiles[0].plugins.multiPoint.enabled[0].name",
     'PreFilterPlugin "EBSLimits" does not exist', "EBSLimits was removed in 1.32"),
    ("1.30", set_plugin("NodeLabel"), "profiles[0].plugins.filter.enabled[0].name",
     'FilterPlugin "NodeLabel" does not exist', "NodeLabel was removed before 1.30"),
    ("1.34", set_plugin("DynamicResources", "score"), "profiles[0].plugins.score.enabled[0].name",
     'plugin "DynamicResources" does not extend ScorePlugin plugin', "DynamicResources needs Kubernetes 1.35 at score"),
    ("1.35", set_plugin("PodGroupPodsCount", "placementScore"), "profiles[0].plugins.placementScore",
     'unknown field "profiles[0].plugins.placementScore"', "placementScore needs Kubernetes 1.36"),
    ("1.34", set_args(filterTimeout="1s", bindingTimeout="9s"), "profiles[0].pluginConfig[0].args.bindingTimeout",
     'unknown field "profiles[0].pluginConfig[0].args.bindingTimeout"', "bindingTimeout needs Kubernetes 1.35"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "document", "field", "refusal", "hint"), REFUSED, ids=lambda value: str(value)[:40]
)
def test_rejection_names_the_version(version: str, document: Json, field: str, refusal: str, hint: str) -> None:
    said = check_fields(version, document)[field]
    assert refusal in said
    assert said.endswith(f" ({hint})")
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(document, FeatureGates(version), other_builds=True)
    assert hint in raised.value.hint
    assert hint not in raised.value.what


@pytest.mark.parametrize(
    ("version", "document"),
    [
        ("1.35", set_plugin("NodeDeclaredFeatures")),
        ("1.31", set_plugin("EBSLimits", "multiPoint")),
        ("1.35", set_plugin("DynamicResources", "score")),
        ("1.36", set_profile(plugins={"placementScore": {"disabled": [{"name": "*"}]}})),
        ("1.34", set_args(filterTimeout="1s")),
        ("1.35", set_plugin("OfAnotherBuild")),
    ],
)
def test_features_of_the_version_are_not_named(version: str, document: Json) -> None:
    assert list(iter_version_mismatches(document, int(version[2:]))) == []
    load_configuration(document, FeatureGates(version), other_builds=True)


def test_hint_is_about_the_rejected_field() -> None:
    document = {**set_plugin("EBSLimits", how="disabled"), "parallelism": -1}
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(document, FeatureGates())
    assert (raised.value.hint, "parallelism" in raised.value.what) == ("", True)


def test_ignored_fields_name_the_version() -> None:
    assert check_fields("1.34", set_plugin("NodeDeclaredFeatures", how="disabled")) == {
        "profiles[0].plugins.filter.disabled[0]": "plugin NodeDeclaredFeatures does not exist"
        " (NodeDeclaredFeatures needs Kubernetes 1.35)"
    }
    unknown = set_profile(pluginConfig=[{"name": "GangScheduling"}])
    assert check_fields("1.34", unknown)["profiles[0].pluginConfig[0]"].endswith(
        "(GangScheduling needs Kubernetes 1.35)"
    )


def test_arguments_of_later_versions_are_not_validated() -> None:
    """Before DynamicResourcesArgs existed, nothing decoded the arguments."""
    document, gates = (
        set_args(filterTimeout="soon", bindingTimeout="9s"),
        {"DynamicResourceAllocation": True},
    )
    (said,) = check_fields("1.33", document, gates).values()
    assert said.startswith("arguments of DynamicResources need 1.34")
    load_configuration(document, FeatureGates("1.33", gates))
    with pytest.raises(ConfigurationError, match="soon"):
        load_configuration(document, FeatureGates("1.35"))


@pytest.mark.parametrize(
    ("api_version", "says"),
    [("v1beta1", "was removed in 1.23"), ("v1beta2", "was removed in 1.28"), ("v1beta3", "was removed in 1.29")],
)
def test_removed_versions_of_the_configuration(api_version: str, says: str) -> None:
    document = {**META, "apiVersion": f"kubescheduler.config.k8s.io/{api_version}"}
    assert says in check_fields("1.30", document)["apiVersion"]
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(document, FeatureGates("1.30"))
    assert says in raised.value.hint


@pytest.mark.parametrize("document", [{}, {"profiles": 5}, {"profiles": [None, {"plugins": [], "pluginConfig": [7]}]}])
def test_documents_of_any_form(document: Json) -> None:
    assert list(iter_version_mismatches(document, 30)) == []


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command on a file with a document."""

    def run(document: Json, *arguments: str) -> tuple[int, str, str]:
        (tmp_path / "c.json").write_text(json.dumps(document))
        code = main((*arguments[:2], str(tmp_path / "c.json"), *arguments[2:]))
        return code, *capsys.readouterr()

    return run


def test_view_of_ignored_fields(run: Callable[..., tuple[int, str, str]]) -> None:
    document = set_plugin("NodeDeclaredFeatures", how="disabled")
    code, out, _ = run(document, "config", "view", "--kube-version", "1.34", "-o", "json")
    found = json.loads(out)
    assert (code, found["kubeVersion"]) == (0, "1.34")
    assert found["ignored"] == [
        "profiles[0].plugins.filter.disabled[0].name: NodeDeclaredFeatures needs Kubernetes 1.35"
    ]
    assert (
        "Ignored: kube-scheduler 1.34 does not support:" in run(document, "config", "view", "--kube-version", "1.34")[1]
    )
    assert json.loads(run(document, "config", "view", "-o", "json")[1]).get("ignored", []) == []


def test_view_of_rejected_fields(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run(set_plugin("NodeDeclaredFeatures"), "config", "view", "--kube-version", "1.34")
    assert (code, out) == (2, "")
    assert err.endswith(
        'FilterPlugin "NodeDeclaredFeatures" does not exist (NodeDeclaredFeatures needs Kubernetes 1.35)\n'
    )


def test_feature_gates(run: Callable[..., tuple[int, str, str]]) -> None:
    options = ("--kube-version", "1.34", "--feature-gates", "NodeDeclaredFeatures=true")
    code, _, err = run(META, "config", "check", *options)
    assert code == 2
    assert "unrecognized feature gate: NodeDeclaredFeatures (NodeDeclaredFeatures needs Kubernetes 1.35)" in err
