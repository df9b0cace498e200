"""Check manifests as ``helm template`` prints them: without their Namespace, and with several workloads."""

from __future__ import annotations

import pytest
from command_line import Run, Write, build_node

Json = dict[str, object]
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "n1"}}
TAKEN = "note: namespace fresh does not exist in the cluster and is assumed to be created first"
NOT_FOUND = 'namespaces "fresh" not found'


def build_deployment(name: str, cpu: str, storage: str = "") -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": name}
    spec: Json = {"replicas": 1, "selector": {"matchLabels": labels}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": storage}}] if storage else []
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}}
    metadata = {"name": name, "namespace": "fresh"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {**spec, "template": template}}


@pytest.fixture
def cluster(write: Write) -> str:
    return write(build_node("n1", cpu="4"), NAMESPACE)


@pytest.mark.parametrize("command", ["explain", "simulate", "remedies", "capacity", "make-room"])
def test_missing_namespace_is_assumed_to_be_created_unless_declined(
    run: Run, write: Write, cluster: str, command: str
) -> None:
    chart = write(build_deployment("web", "1"), name="chart.json")
    assumed = run(command, "-f", cluster, "-f", chart)
    assert TAKEN in assumed.err
    assert NOT_FOUND not in assumed.out + assumed.err
    declined = run(command, "-f", cluster, "-f", chart, "--assume-namespaces=false")
    assert TAKEN not in declined.err
    assert NOT_FOUND in " ".join((declined.out + declined.err).split())


def test_remedies_cover_all_workloads_in_the_files(run: Run, write: Write, cluster: str) -> None:
    """The node has 4 CPUs, so a pod of 6 CPUs does not fit, and a pod of 1 CPU does."""
    chart = write(build_deployment("web", "6"), build_deployment("api", "1"), name="chart.json")
    outcome = run("remedies", "-f", cluster, "-f", chart)
    assert outcome.code == 1
    assert "1 of 1 pending pod of 2 workloads in the manifests" in " ".join(outcome.out.split())
    assert "Add a node like n1 but with 6 CPUs" in outcome.out
    assert "namespace default" not in outcome.out


def test_missing_storage_class_is_named_before_the_schedulers_message(run: Run, write: Write, cluster: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "fresh"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "nosuch",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    chart = write(build_deployment("web", "1", storage="data"), claim, name="chart.json")
    for command in ("explain", "simulate", "capacity", "remedies", "make-room"):
        text = " ".join(run(command, "-f", cluster, "-f", chart).out.split())
        cause, _, rest = text.partition("StorageClass nosuch does not exist")
        assert rest, command
        assert "unbound immediate PersistentVolumeClaims" not in cause, command
