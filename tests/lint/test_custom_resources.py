"""Check that pod templates of custom resources are linted, and that their pods are not called missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cli.main import main

POD = "nodeSelector: {beta.kubernetes.io/os: linux}, containers: [{name: a, image: a}]"
RESOURCES = {
    "Rollout": ("argoproj.io/v1alpha1", "Rollout", "{template: {spec: {%s}}}", "spec.template"),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "{replicatedJobs: [{name: a, template: {spec: {template: {spec: {%s}}}}}]}",
        "spec.replicatedJobs[0].template.spec.template",
    ),
    "Volcano": (
        "batch.volcano.sh/v1alpha1",
        "Job",
        "{tasks: [{replicas: 2, template: {spec: {%s}}}]}",
        "spec.tasks[0].template",
    ),
    "Ray": (
        "ray.io/v1",
        "RayJob",
        "{rayClusterSpec: {workerGroupSpecs: [{replicas: 2, template: {spec: {%s}}}]}}",
        "spec.rayClusterSpec.workerGroupSpecs[0].template",
    ),
    "PyTorch": (
        "kubeflow.org/v1",
        "PyTorchJob",
        "{pytorchReplicaSpecs: {Worker: {replicas: 3, template: {spec: {%s}}}}}",
        "spec.pytorchReplicaSpecs.Worker.template",
    ),
    "Knative": ("serving.knative.dev/v1", "Service", "{template: {spec: {%s}}}", "spec.template"),
    "ECK": (
        "elasticsearch.k8s.elastic.co/v1",
        "Elasticsearch",
        "{nodeSets: [{count: 3, podTemplate: {spec: {%s}}}]}",
        "spec.nodeSets[0].podTemplate",
    ),
    "unknown": ("example.com/v1", "Deployment", "{a: [{template: {spec: {%s}}}]}", "spec.a[0].template"),
}
FIELDS = "nodeSelector: {beta.kubernetes.io/os: linux}"
WITHOUT_TEMPLATE = {
    "Spark": ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "{driver: {%s}}", "spec.driver"),
    "KubeVirt": ("kubevirt.io/v1", "VirtualMachine", "{template: {spec: {%s}}}", "spec.template.spec"),
    "Argo": ("argoproj.io/v1alpha1", "Workflow", "{templates: [{name: a}, {name: b, %s}]}", "spec.templates[1]"),
    "Argo at the top": ("argoproj.io/v1alpha1", "CronWorkflow", "{workflowSpec: {%s}}", "spec.workflowSpec"),
    "Strimzi": ("kafka.strimzi.io/v1beta2", "Kafka", "{kafka: {template: {pod: {%s}}}}", "spec.kafka.template.pod"),
}


def lint_text(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str) -> list[dict[str, Any]]:
    """Return the findings in a manifest."""
    (tmp_path / "m.yaml").write_text(text)
    main(["lint", str(tmp_path / "m.yaml"), "-o", "json", *options])
    findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return findings


def make_resource(version: str, kind: str, spec: str, inside: str) -> str:
    """Return a custom resource with a pod template inside."""
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a, namespace: shop}}\nspec: {spec % inside}\n"


@pytest.mark.parametrize("name", RESOURCES)
def test_pod_templates_are_linted(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *made, at = RESOURCES[name]
    text = make_resource(*made, POD)
    seen = lint_text(tmp_path, capsys, text, "--select", "lb-deprecated,rq-missing*,ts-missing")
    lacking = {("rq-missing", f"{at}.spec.containers[0]")} if name != "ECK" else set()
    deprecated = ("lb-deprecated", f"{at}.spec.nodeSelector[beta.kubernetes.io/os]")
    assert {(f["rule"].removesuffix("-in-jobs"), f["path"]) for f in seen} == {deprecated, *lacking}
    assert {f["line"] for f in seen} == {4}
    said = {"looks like a pod template of a Deployment" in f["message"] for f in seen}
    assert said == {name == "unknown"}


@pytest.mark.parametrize("name", WITHOUT_TEMPLATE)
def test_fields_of_pods_are_linted(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *made, at = WITHOUT_TEMPLATE[name]
    (seen,) = lint_text(tmp_path, capsys, make_resource(*made, FIELDS), "--select", "lb-deprecated,rq-missing")
    assert seen["path"] == f"{at}.nodeSelector[beta.kubernetes.io/os]"


SPREAD = (
    "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, "
    "labelSelector: {matchLabels: {added: by-the-operator}}}], containers: [{name: a, image: a}]"
)


def test_labels_that_operators_may_add_are_not_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    select = ("--select", "ts-selector-not-self")
    rollout, ray = make_resource(*RESOURCES["Rollout"][:3], SPREAD), make_resource(*RESOURCES["Ray"][:3], SPREAD)
    assert len(lint_text(tmp_path, capsys, rollout, *select)) == 1
    assert lint_text(tmp_path, capsys, ray, *select) == []


BUDGET = """\
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: other, namespace: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: other}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}}
---
"""
MAKER = "apiVersion: %s\nkind: %s\nmetadata: {name: a, namespace: %s}\nspec: {}\n"


@pytest.mark.parametrize(
    ("made", "empty"),
    [
        (("monitoring.coreos.com/v1", "Prometheus", "shop"), False),
        (("kafka.strimzi.io/v1", "Kafka", "elsewhere"), True),
        (("helm.toolkit.fluxcd.io/v2", "HelmRelease", "flux-system"), False),
        (("monitoring.coreos.com/v1", "ServiceMonitor", "shop"), True),
        (("networking.k8s.io/v1", "NetworkPolicy", "shop"), True),
        (("rbac.authorization.k8s.io/v1", "Role", "shop"), True),
    ],
)
def test_budgets_of_pods_of_custom_resources(
    made: tuple[str, str, str], empty: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = BUDGET + MAKER % made
    assert bool(lint_text(tmp_path, capsys, text, "--select", "pdb-selects-nothing")) == empty


SCALED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
"""
SCALERS = {
    "KEDA": "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\n"
    "spec: {maxReplicaCount: 9, scaleTargetRef: {name: web}}\n",
    "HPA with a namespace": "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
    "metadata: {name: a, namespace: default}\n"
    "spec: {minReplicas: 2, maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: web}}\n",
}


@pytest.mark.parametrize("name", SCALERS)
def test_scalers(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (seen,) = lint_text(tmp_path, capsys, SCALED + SCALERS[name], "--select", "pdb-over-hpa-min")
    assert f"may scale down to {1 if name == 'KEDA' else 2}" in seen["message"]
    assert lint_text(tmp_path, capsys, SCALED, "--select", "pdb-over-hpa-min") == []


def test_rendered_objects_belong_to_the_namespace_of_their_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Deployment names no namespace, and the scaler names the namespace of the release."""
    scaler = SCALERS["HPA with a namespace"].replace("namespace: default", "namespace: shop")
    scaler = f"# Source: web/templates/scaler.yaml\n{scaler}"
    rendered = SCALED.replace("---\n", "---\n# Source: web/templates/web.yaml\n").removesuffix(
        "# Source: web/templates/web.yaml\n"
    )
    select = ("--select", "pdb-over-hpa-min")
    text = f"---\n# Source: web/templates/web.yaml\n{rendered}{scaler}"
    assert [f["object"] for f in lint_text(tmp_path, capsys, text, *select)] == ["PodDisruptionBudget shop/web"]
    assert lint_text(tmp_path, capsys, text.replace("# Source", "# From"), *select) == []


def test_fields_that_operators_fill_in_are_not_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Elastic's operator sets the requests of its containers. The values of a chart are no pod."""
    containers = "{podTemplate: {spec: {containers: [{name: kibana, image: kibana}]}}}"
    kibana = f"apiVersion: kibana.k8s.elastic.co/v1\nkind: Kibana\nmetadata: {{name: a}}\nspec: {containers}\n"
    release = f"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: a}}\nspec: {containers}\n"
    assert lint_text(tmp_path, capsys, kibana) == lint_text(tmp_path, capsys, release) == []
    partial = "{deployment: {spec: {template: {spec: {containers: [{name: grafana, env: []}]}}}}}"
    grafana = f"apiVersion: grafana.integreatly.org/v1beta1\nkind: Grafana\nmetadata: {{name: a}}\nspec: {partial}\n"
    assert lint_text(tmp_path, capsys, grafana) == []


def test_jobs_of_a_set_are_counted_times_their_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two Jobs of three pods each make a gang of six."""
    group = (
        "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: g}\n"
        "spec: {schedulingPolicy: {gang: {minCount: %d}}}\n---\n"
    )
    pod = "{spec: {schedulingGroup: {podGroupName: g}, containers: [{name: c, image: i}]}}"
    jobs = f"replicatedJobs: [{{name: a, replicas: 2, template: {{spec: {{parallelism: 3, template: {pod}}}}}}}]"
    text = group + f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: a}}\nspec: {{{jobs}}}\n"
    assert lint_text(tmp_path, capsys, text % 6, "--select", "gg-*") == []
    (said,) = lint_text(tmp_path, capsys, text % 7, "--select", "gg-*")
    assert said["message"].startswith("minCount is 7, but its workloads have only 6 pods")
