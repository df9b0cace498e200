"""Check that Kueue's release and Configuration come from its Deployment, its ConfigMap, or options."""

from __future__ import annotations

from pathlib import Path

import pytest
from kueue_objects import NODES, NOW, QUEUES, build_manifest

from kschedctl.api.objects import ConfigMap, ObjectMeta
from kschedctl.api.queueing import KueueRelease
from kschedctl.api.workloads import decode_workload
from kschedctl.cli.kueue_options import KueueInput
from kschedctl.cluster import Cluster, Gap
from kschedctl.errors import InputError, UsageError
from kschedctl.kueue.installation import detect_installation
from kschedctl.replay.waiting_elsewhere.kueue_jobs import predict_manifest_outlooks
from kschedctl.reports.waiting_elsewhere import WaitingState
from kschedctl.sources.anonymize.cluster import anonymize_cluster
from kschedctl.sources.archive_file import read_archive, write_archive

_TEXT = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {frameworks: [pod]}
resources: {transformations: [{input: nvidia.com/gpu, outputs: {example.com/credit: 10}, strategy: Retain}]}
metrics: {bindAddress: ":8443"}
"""


def _build_config_map(text: str = _TEXT) -> ConfigMap:
    """Build the ConfigMap of Kueue."""
    return ConfigMap(ObjectMeta("kueue-manager-config", "kueue-system"), {"controller_manager_config.yaml": text})


def _build_cluster(text: str = _TEXT) -> Cluster:
    """Build a cluster with queues, nodes, and the ConfigMap of Kueue."""
    cluster = Cluster.from_objects([*QUEUES, *NODES])
    return cluster.with_objects({"ConfigMap": [_build_config_map(text)]})


def test_config_map_determines_the_managed_jobs() -> None:
    job = decode_workload(build_manifest(gpus=1, pods=1))
    assert predict_manifest_outlooks(_build_cluster(), [job], NOW) == []
    (outlook,) = predict_manifest_outlooks(Cluster.from_objects([*QUEUES, *NODES]), [job], NOW)
    assert outlook.report.state is WaitingState.ADMISSIBLE


def test_snapshot_keeps_the_configuration(tmp_path: Path) -> None:
    path = str(tmp_path / "cluster.ksnap")
    write_archive(_build_cluster(), path)
    assert detect_installation(read_archive(path)).configuration["integrations"] == {"frameworks": ["pod"]}


def test_anonymized_configuration_has_no_names() -> None:
    (config_map,) = anonymize_cluster(_build_cluster()).cluster.config_maps
    configuration = detect_installation(Cluster(config_maps=(config_map,))).configuration
    assert configuration["integrations"] == {"frameworks": ["pod"]}
    text = config_map.data["controller_manager_config.yaml"]
    assert "example.com" not in text
    assert "metrics" not in text


@pytest.mark.parametrize("text", ["a: b: c", "- list", "kind: Other"])
def test_malformed_configuration_is_a_doubt(text: str) -> None:
    installation = detect_installation(_build_cluster(text))
    assert installation.configuration == {}
    assert installation.doubt.startswith("ConfigMap kueue-system/kueue-manager-config: ")


def test_forbidden_configuration_is_a_doubt() -> None:
    cluster = Cluster(gaps={"ConfigMap": Gap("could not be read: forbidden")})
    assert "could not be read: forbidden" in detect_installation(cluster).doubt


def test_malformed_list_of_integrations_leaves_jobs_unchecked() -> None:
    job = decode_workload(build_manifest(gpus=1, pods=1))
    (outlook,) = predict_manifest_outlooks(_build_cluster("integrations: {frameworks: pod}"), [job], NOW)
    assert outlook.report.state is WaitingState.NOT_CHECKED
    assert "integrations.frameworks" in outlook.report.headline


def test_options_take_precedence_over_the_cluster(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("kind: Configuration\nfairSharing: {}\n")
    cluster = KueueInput(kueue_version="v0.19", kueue_config=str(path)).apply_to(_build_cluster())
    installation = detect_installation(cluster)
    assert installation.release is KueueRelease.V0_19
    assert installation.configuration == {"kind": "Configuration", "fairSharing": {}}


def test_unusable_options_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"0\.3"):
        KueueInput(kueue_version="0.3").apply_to(_build_cluster())
    path = tmp_path / "config.yaml"
    path.write_text("kind: Other\n")
    with pytest.raises(InputError, match="contains no Configuration of Kueue"):
        KueueInput(kueue_config=str(path)).apply_to(_build_cluster())
