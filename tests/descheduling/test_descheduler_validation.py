"""Check the descheduler's validation of arguments against its own tables (v0.36), by name."""

from __future__ import annotations

import pytest
import yaml
from descheduler_cases import GOLDEN, Case, convert_arguments

import kschedctl
from kschedctl.descheduling.arguments import DefaultEvictorArgs, RemoveFailedPodsArgs
from kschedctl.descheduling.policy import EVICTOR, read_policy
from kschedctl.errors import InputError

TABLES: dict[str, list[Case]] = yaml.load((GOLDEN / "validation.yaml").read_text(), yaml.CSafeLoader)
ROWS = [(plugin, row) for plugin, rows in TABLES.items() for row in rows]
BALANCING = {
    "HighNodeUtilization",
    "LowNodeUtilization",
    "RemoveDuplicates",
    "RemovePodsViolatingTopologySpreadConstraint",
}


def build_policy_with_arguments(plugin: str, args: Case) -> Case:
    """Build a policy of this plugin only."""
    point = "balance" if plugin in BALANCING else "deschedule"
    plugins = {} if plugin == EVICTOR else {point: {"enabled": [plugin]}}
    profile = {"name": "p", "pluginConfig": [{"name": plugin, "args": args}], "plugins": plugins}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}


@pytest.mark.parametrize(("plugin", "row"), ROWS, ids=[f"{plugin}/{row['name']}" for plugin, row in ROWS])
def test_arguments(plugin: str, row: Case) -> None:
    cluster, policy = kschedctl.Cluster.from_objects([]), build_policy_with_arguments(plugin, row["args"])
    if not row["refused"]:
        kschedctl.rebalance(cluster, policy)
        return
    with pytest.raises(InputError):
        kschedctl.rebalance(cluster, policy)


POLICIES: dict[str, list[Case]] = yaml.safe_load((GOLDEN / "policies.yaml").read_text())
OF_POLICIES = [(test, row) for test, rows in POLICIES.items() for row in rows]


def build_policy(row: Case) -> Case:
    profiles = [
        {"name": f"p{number}", "pluginConfig": [{"name": name, "args": args} for name, args in plugins.items()]}
        for number, plugins in enumerate(row.get("profiles", ()))
    ]
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": profiles,
        **row.get("policy", {}),
    }


@pytest.mark.parametrize(("test", "row"), OF_POLICIES, ids=[f"{test}/{row['name']}" for test, row in OF_POLICIES])
def test_policies(test: str, row: Case) -> None:
    if not row["refused"]:
        read_policy(build_policy(row))
        return
    with pytest.raises(InputError) as refused:
        read_policy(build_policy(row))
    assert refused.value.where


def test_failed_pods_live_an_hour_by_default() -> None:
    """TestDecodeDefaults, "use empty RemoveFailedPods, check MinPodLifetimeSeconds default"."""
    (row,) = (row for row in POLICIES["TestDecodeDefaults"] if row["name"].startswith("use empty RemoveFailedPods"))
    document = build_policy(row)
    document["profiles"][0]["plugins"] = {"deschedule": {"enabled": ["RemoveFailedPods"]}}
    ((_, run),) = read_policy(document).iter_runs()
    assert isinstance(run.arguments, RemoveFailedPodsArgs)
    assert run.arguments.min_pod_lifetime_seconds == 3600


DEFAULT = {"PodsWithLocalStorage", "SystemCriticalPods", "FailedBarePods", "DaemonSetPods"}
PVC, CLAIMS = "PodsWithPVC", "PodsWithResourceClaims"


@pytest.mark.parametrize(
    ("disabled", "enabled", "effective"),
    [
        ([], [], DEFAULT),
        (["PodsWithLocalStorage"], [], {"DaemonSetPods", "SystemCriticalPods", "FailedBarePods"}),
        (["DaemonSetPods", "SystemCriticalPods"], [], {"PodsWithLocalStorage", "FailedBarePods"}),
        ([], [PVC], {*DEFAULT, PVC}),
        ([], [PVC, "PodsWithoutPDB"], {*DEFAULT, PVC, "PodsWithoutPDB"}),
        (["FailedBarePods", "DaemonSetPods"], [PVC], {"PodsWithLocalStorage", "SystemCriticalPods", PVC}),
        ([], [CLAIMS], {*DEFAULT, CLAIMS}),
        (
            ["FailedBarePods", "DaemonSetPods"],
            [PVC, CLAIMS],
            {"PodsWithLocalStorage", "SystemCriticalPods", PVC, CLAIMS},
        ),
    ],
    ids=[
        "NewConfig_EmptyConfig_ReturnsDefault",
        "NewConfig_DisableOneDefault_ReturnsDefaultMinusOne",
        "NewConfig_DisableMultipleDefaults_ReturnsDefaultMinusMultiple",
        "NewConfig_EnableOneExtra_ReturnsDefaultPlusOne",
        "NewConfig_EnableMultipleExtra_ReturnsDefaultPlusMultiple",
        "NewConfig_DisableAndEnable_ReturnsModifiedSet",
        "NewConfig_EnableOneExtra(PodsWithResourceClaims)_ReturnsDefaultPlusOne",
        "NewConfig_DisableAndEnable_ReturnsModifiedSet#01",
    ],
)
def test_effective_protections(disabled: list[str], enabled: list[str], effective: set[str]) -> None:
    """TestGetEffectivePodProtections_TableDriven."""
    args = convert_arguments(EVICTOR, {"podProtections": {"defaultDisabled": disabled, "extraEnabled": enabled}})
    assert isinstance(args, DefaultEvictorArgs)
    assert args.protections == effective


@pytest.mark.parametrize(
    ("config", "classes"),
    [
        ({}, set()),
        ({"podProtections": {"config": {}}}, set()),
        (
            {"podProtections": {"config": {PVC: {"protectedStorageClasses": [{"name": "sc1"}, {"name": "sc2"}]}}}},
            {"sc1", "sc2"},
        ),
    ],
    ids=["no PodProtections config", "no PodsWithPVC config", "storage classes specified"],
)
def test_protected_storage_classes(config: Case, classes: set[str]) -> None:
    """Test_protectedPVCStorageClasses."""
    args = convert_arguments(EVICTOR, config)
    assert isinstance(args, DefaultEvictorArgs)
    assert args.protected_storage_classes == classes


def test_number_of_compared_cases() -> None:
    assert (len(ROWS), len(OF_POLICIES)) == (75, 22)
