"""Check that templates, patches and broken files in a repository affect no other file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cli.main import main
from kschedctl.sources.repository import read_repository

Lint = Callable[..., tuple[int, dict[str, Any], str]]

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {beta.kubernetes.io/os: linux}
      containers: [{name: web, image: web, resources: {requests: {cpu: 1, memory: 1Gi}}}]
"""
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: other}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: other}}}
"""
FILES = {
    "web.yaml": WEB,
    "chart/templates/web.yaml": "kind: Pod\napiVersion: v1\nmetadata: {{ .Values.x }}: y\n",
    "flux.yaml": WEB.replace("name: web}\nspec:", "name: $X}\nspec:\n  replicas: ${REPLICAS}").replace("$X", "${APP}"),
    "ci.yml": "job:\n  script: !reference [.setup, script]\n",
    "values.yaml": "replicas: 3\n---\n- a\n- b\n",
}


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lint:
    """Return a function that lints a folder with some files and returns exit code, report and stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def lint(files: dict[str, str], *options: str) -> tuple[int, dict[str, Any], str]:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        code = main(["lint", ".", "-R", "-o", "json", *options])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else {}, err

    return lint


def list_skipped(report: dict[str, Any]) -> dict[str, list[str]]:
    """Return what was skipped."""
    return {each["what"]: each["where"] for each in report["passedOver"]}


def test_other_files_are_counted_and_manifests_are_linted(lint: Lint) -> None:
    code, report, _ = lint(FILES, "--select", "lb-deprecated")
    assert (code, report["checked"]) == (1, 1)
    assert [(f["file"], f["rule"]) for f in report["findings"]] == [("web.yaml", "lb-deprecated")]
    assert list_skipped(report) == {
        "templates": ["flux.yaml", "chart/templates/web.yaml"],
        "documents other than Kubernetes objects": ["ci.yml", "values.yaml", "values.yaml, document 2"],
    }


@pytest.mark.parametrize(
    ("written", "placeholder"),
    [
        ("name: web}\nspec:", "name: WEB_NAME}\nspec:"),
        ("memory: 1Gi", "memory: $(web_memory)"),
        ("memory: 1Gi", "memory: FROM_OVERLAY"),
    ],
)
def test_placeholders_make_a_file_a_template(lint: Lint, written: str, placeholder: str) -> None:
    _, report, _ = lint({"web.yaml": WEB.replace(written, placeholder)})
    assert (report["checked"], list_skipped(report)) == (0, {"templates": ["web.yaml"]})


@pytest.mark.parametrize("name", ["web-patch.yaml", "patch_web.yaml", "web.patch.yaml"])
def test_files_named_like_patches_are_patches(lint: Lint, name: str) -> None:
    _, report, _ = lint({name: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {}\n"})
    assert list_skipped(report) == {"patches of Kustomize": [name]}
    _, report, _ = lint({"dispatcher.yaml": WEB}, "--select", "lb-deprecated")
    assert report["checked"] == 1


def test_container_variables_are_no_placeholders(lint: Lint) -> None:
    mounts = "volumeMounts: [{name: a, mountPath: /a, subPathExpr: $(POD_NAME)}], args: [--name=$(POD_NAME)], resources"
    _, report, _ = lint({"web.yaml": WEB.replace("resources", mounts)}, "--select", "lb-deprecated")
    assert (report["checked"], list_skipped(report)) == (1, {})


def test_broken_manifest_is_a_finding(lint: Lint) -> None:
    code, report, _ = lint({"web.yaml": WEB, "broken.yaml": WEB + "  a: [\n---\n" + BUDGET}, "--select", "ts-*")
    assert code == 1
    (found,) = report["findings"]
    assert (found["rule"], found["file"], found["line"], found["severity"]) == (
        "doc-unreadable",
        "broken.yaml",
        12,
        "error",
    )


@pytest.mark.parametrize("options", [("--strict",), ()], ids=["strict", "nothing could be read"])
def test_exit_code_2(lint: Lint, options: tuple[str, ...]) -> None:
    broken = {"broken.yaml": WEB + "  a: [\n"}
    code, report, err = lint(broken | ({"web.yaml": WEB} if options else {}), *options)
    assert (code, report, err.count("\n")) == (2, {}, 1)
    assert "broken.yaml: document 1, line 12" in err


def test_missing_file_among_others_is_a_finding(lint: Lint) -> None:
    code, report, _ = lint({"web.yaml": WEB}, "nope.yaml", "--select", "ts-*")
    assert (code, [(f["file"], f["rule"]) for f in report["findings"]]) == (1, [("nope.yaml", "doc-unreadable")])


PATCHES = {
    "base/web.yaml": WEB,
    "base/kustomization.yaml": "resources: [web.yaml]\n",
    "prod/kustomization.yaml": "resources: [../base]\npatches: [{path: more.yaml}]\n"
    "configMapGenerator: [{name: a, files: [x=pod.yaml]}]\n",
    "prod/more.yaml": WEB.replace("image: web, ", ""),
    "prod/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n",
    "prod/replicas.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n",
    "elsewhere/image.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    "spec: {template: {spec: {containers: [{name: web, resources: {limits: {cpu: 1}}}]}}}\n",
    "elsewhere/gone.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {$patch: delete}\n",
    "prod/old/kustomization.yaml": "resources: [../../base]\npatches: [image.yaml]\n",
    "prod/old/image.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {a: b}}\n"
    "spec: {selector: {matchLabels: {app: web}}, template: {spec: {containers: [{name: web, image: web2}]}}}\n",
    "elsewhere/unlabelled.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    "spec: {template: {spec: {containers: [{name: web, image: web2}]}}}\n",
    "elsewhere/sidecar.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    "spec: {template: {spec: {containers: [{name: proxy, image: proxy}, {name: web, args: [a]}]}}}\n",
}


def test_patches_are_no_workloads(lint: Lint) -> None:
    code, report, _ = lint(PATCHES, "--ignore", "lb-deprecated,rq-*")
    assert (code, report["findings"], report["checked"]) == (0, [], 1)
    assert list_skipped(report)["patches of Kustomize"] == [
        "elsewhere/gone.yaml",
        "elsewhere/image.yaml",
        "elsewhere/sidecar.yaml",
        "elsewhere/unlabelled.yaml",
        "prod/more.yaml",
        "prod/pod.yaml",
        "prod/replicas.yaml",
        "prod/old/image.yaml",
    ]


def test_values_file_with_a_kind_is_no_object(lint: Lint) -> None:
    code, report, _ = lint({"values.yaml": "kind: Deployment\nreplicas: 2\nnodeSelector: {}\n", "web.yaml": WEB}, *API)
    assert (code, report["checked"]) == (0, 1)
    assert list_skipped(report) == {"documents other than Kubernetes objects": ["values.yaml"]}


@pytest.mark.parametrize("text", ["{% raw %}\n" + WEB, WEB.replace("web}", "@NAME@}"), WEB + "  a: {PREFIX}.16\n"])
def test_other_templates(lint: Lint, text: str) -> None:
    code, report, _ = lint({"page.yaml": text, "web.yaml": WEB}, *API)
    assert (code, list_skipped(report)) == (0, {"templates": ["page.yaml"]})


UNSELECTED = WEB.replace("  selector: {matchLabels: {app: web}}\n", "")
LABELLED = {
    "commonLabels": "resources: [../base]\ncommonLabels: {team: shop}\n",
    "labels": "resources: [../base]\nlabels: [{pairs: {team: shop}, includeSelectors: true}]\n",
}
API = ("--select", "api-*")


@pytest.mark.parametrize("how", LABELLED)
def test_kustomize_adds_selectors(lint: Lint, how: str) -> None:
    """A base may leave selectors to the overlay. Kustomize adds them to selectors and to the labels of pods."""
    files = {
        "base/web.yaml": UNSELECTED.replace("    metadata: {labels: {app: web}}\n", ""),
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "prod/kustomization.yaml": LABELLED[how],
    }
    code, report, _ = lint(files, *API)
    assert (code, report["checked"]) == (0, 1)


SCALED = {
    "replicas": {"prod/kustomization.yaml": "resources: [../base]\nreplicas: [{name: web, count: 3}]\n"},
    "a patch": {
        "prod/kustomization.yaml": "resources: [../base]\npatches: [{path: more.yaml}]\n",
        "prod/more.yaml": "kind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n",
    },
    "an inline patch": {
        "prod/kustomization.yaml": "resources: [../base]\npatches:\n- patch: |\n    kind: Deployment\n"
        "    metadata: {name: web}\n    spec: {replicas: 3}\n",
    },
    "a component": {
        "prod/kustomization.yaml": "resources: [../base]\ncomponents: [../more]\n",
        "more/kustomization.yaml": "kind: Component\nreplicas: [{name: web, count: 3}]\n",
    },
}
ALL_OF_ONE = BUDGET.replace("other", "web").replace("maxUnavailable", "minAvailable")


@pytest.mark.parametrize("how", SCALED)
def test_kustomize_sets_replicas(lint: Lint, how: str) -> None:
    """A budget for the replicas of an overlay must not be called one that never allows an eviction."""
    base = {"base/kustomization.yaml": "resources: [web.yaml, pdb.yaml]\n", "base/web.yaml": WEB}
    files = base | {"base/pdb.yaml": ALL_OF_ONE} | SCALED[how]
    assert lint(files, "--select", "pdb-zero-disruptions")[1]["findings"] == []


def test_spread_may_be_added_with_the_replicas_by_an_overlay(lint: Lint) -> None:
    apart = (
        "{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}"
    )
    patch = "kind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3, template: {spec: %s}}\n"
    files = {"base/kustomization.yaml": "resources: [web.yaml]\n", "base/web.yaml": WEB}
    files["prod/kustomization.yaml"] = "resources: [../base]\npatches: [{path: more.yaml}]\n"
    files["prod/more.yaml"] = patch % "{affinity: %s}" % apart
    assert lint(files, "--select", "ts-missing")[1]["findings"] == []
    files["prod/more.yaml"] = patch % "{}"
    assert len(lint(files, "--select", "ts-missing")[1]["findings"]) == 1


SPREADING_PATCH = (
    "kind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {affinity: {podAntiAffinity: "
    "{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]}}}}}\n"
)
REPLICAS_PATCH = "kind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"
TWO_PATCHES = {
    "in one kustomization": {
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "prod/kustomization.yaml": "resources: [../base]\npatches: [{path: spread.yaml}, {path: more.yaml}]\n",
        "prod/spread.yaml": SPREADING_PATCH,
        "prod/more.yaml": REPLICAS_PATCH,
    },
    "in two kustomizations": {
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "middle/kustomization.yaml": "resources: [../base]\npatches: [{path: spread.yaml}]\n",
        "middle/spread.yaml": SPREADING_PATCH,
        "prod/kustomization.yaml": "resources: [../middle]\npatches: [{path: more.yaml}]\n",
        "prod/more.yaml": REPLICAS_PATCH,
    },
}


@pytest.mark.parametrize("where", TWO_PATCHES)
def test_patches_of_one_object_add_up(lint: Lint, where: str) -> None:
    files = TWO_PATCHES[where] | {"base/web.yaml": WEB}
    assert lint(files, "--select", "ts-missing")[1]["findings"] == []


def test_unscaled_workload_keeps_its_replicas(lint: Lint) -> None:
    files = {"base/kustomization.yaml": "resources: [web.yaml, pdb.yaml]\n", "base/web.yaml": WEB}
    files |= {"base/pdb.yaml": ALL_OF_ONE, "lab/kustomization.yaml": "replicas: [{name: web, count: 3}]\n"}
    found = lint(files, "--select", "pdb-zero-disruptions")[1]["findings"]
    assert [f["file"] for f in found] == ["base/pdb.yaml"]


@pytest.mark.parametrize("labels", ["", "labels: [{pairs: {team: shop}}]\n"], ids=["none", "not to selectors"])
def test_missing_selector_is_reported(lint: Lint, labels: str) -> None:
    code, report, _ = lint({"web.yaml": UNSELECTED, "kustomization.yaml": "resources: [web.yaml]\n" + labels}, *API)
    assert (code, [f["message"] for f in report["findings"]]) == (1, ["spec.selector: Required value"])


def test_missing_selector_of_a_daemon_set_is_reported(lint: Lint) -> None:
    """The API uses other words for it. Upstream: ValidateDaemonSetSpec."""
    _, report, _ = lint({"web.yaml": UNSELECTED.replace("Deployment", "DaemonSet")}, *API)
    assert [f["path"] for f in report["findings"]] == ["spec.template.metadata.labels"]


def test_removed_api_versions_default_the_selector_to_the_labels(lint: Lint) -> None:
    _, report, _ = lint({"web.yaml": UNSELECTED.replace("apps/v1", "extensions/v1beta1")}, *API)
    assert [f["rule"] for f in report["findings"]] == ["api-version-removed"]


def test_generated_names_are_not_missing(lint: Lint) -> None:
    job = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a-}\nspec:\n  completions: 3\n"
        "  completionMode: Indexed\n  template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}\n"
    )
    assert lint({"job.yaml": job}, *API)[0] == 0


def test_nothing_is_called_empty_if_files_were_not_read(lint: Lint) -> None:
    files = {"web.yaml": WEB, "budget.yaml": BUDGET}
    assert [f["rule"] for f in lint(files, "--select", "pdb-selects-nothing")[1]["findings"]] == ["pdb-selects-nothing"]
    templates = {"templates/other.yaml": "{{ if .Values.other }}\nkind: Deployment\n{{ end }}\n"}
    assert lint(templates, "--select", "pdb-selects-nothing")[1]["findings"] == []


CHART = {
    "charts/web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\n",
    "charts/web/values.yaml": "replicas: 3\n",
    "charts/web/templates/web.yaml": WEB.replace("name: web}", 'name: "{{ .Release.Name }}"}'),
    "charts/web/templates/more/budget.yaml": "{{ if .Values.replicas }}\n" + BUDGET + "{{ end }}\n",
}


def test_unrendered_chart_templates_are_reported(lint: Lint, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = lint(CHART)
    templates = {each["what"]: (each["where"], each["hint"]) for each in report["passedOver"]}["templates of charts"]
    files = ["charts/web/templates/web.yaml", "charts/web/templates/more/budget.yaml"]
    assert (code, report["checked"], templates) == (5, 0, (files, "--helm renders them"))
    assert main(["lint", "charts", "-R"]) == 5
    told = " ".join(capsys.readouterr().out.split())
    assert "Nothing was linted (no object was found)" in told
    assert "2 templates of charts (--helm renders them)" in told


def test_chart_templates_beside_manifests_do_not_change_the_exit_code(
    lint: Lint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lint(CHART | {"web.yaml": WEB}, "--select", "ts-*")[0] == 0
    assert main(["lint", "charts/web/templates/web.yaml"]) == 0, "files that git's hooks name"


@pytest.mark.parametrize("name", ["($namespace)", "cleanup-<node-name>"])
def test_names_with_placeholders(lint: Lint, name: str) -> None:
    code, report, _ = lint({"web.yaml": WEB, "x.yaml": WEB.replace("{name: web}", f"{{name: '{name}'}}")}, *API)
    assert (code, report["checked"], list_skipped(report)) == (0, 1, {"templates": ["x.yaml"]})


def test_progress_counts_files(tmp_path: Path) -> None:
    files = []
    for name, text in FILES.items():
        files.append(str(tmp_path / name.replace("/", "-")))
        Path(files[-1]).write_text(text)
    told: list[tuple[str, int]] = []
    begun: list[tuple[str, int]] = []

    def begin(what: str, total: int) -> Callable[[int], None]:
        begun.append((what, total))
        return lambda done: told.append((what, done))

    read_repository(files, progress=begin)
    assert begun == [("Building", 0), ("Reading", len(files))]
    assert told == [("Reading", 1)] * len(files)


def test_table_says_what_was_skipped(lint: Lint, capsys: pytest.CaptureFixture[str]) -> None:
    lint(FILES)
    main(["lint", ".", "-R"])
    assert "skipped: 3 documents other than Kubernetes objects, 2 templates" in " ".join(
        capsys.readouterr().out.split()
    )


def test_group_with_an_invalid_policy_is_named(lint: Lint) -> None:
    group = (
        "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: a}\nspec: {schedulingPolicy: gang}\n"
    )
    code, report, _ = lint({"web.yaml": WEB, "group.yaml": group}, "--select", "lb-deprecated,gg-quorum")
    found = [(f["file"], f["rule"]) for f in report["findings"]]
    assert (code, found) == (1, [("group.yaml", "doc-invalid"), ("web.yaml", "lb-deprecated")])


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("Node", "unschedulable: true", "unschedulable: 'yes'", "spec.unschedulable: expected bool, got str"),
        ("Node", "cpu: 4", "cpu: 4 GB", "status.allocatable.cpu: quantities must match"),
        ("PodDisruptionBudget", "maxUnavailable: 1", "maxUnavailable: [1]", "spec.maxUnavailable: expected an integer"),
        ("Service", "selector: {app: web}", "selector: {app: 1}", "spec.selector[app]: expected str, got int"),
    ],
)
def test_unreadable_object_among_nodes_is_a_finding(lint: Lint, name: str, before: str, after: str, said: str) -> None:
    """If a node cannot be read, the cluster is unknown, so no label is called missing."""
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
    node += "spec: {unschedulable: true}\nstatus: {allocatable: {cpu: 4}}\n"
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}}\n"
    text = "---\n".join((node, BUDGET, service, WEB.replace("beta.kubernetes.io/os: linux", "pool: gone")))
    assert before in text
    _, report, _ = lint({"all.yaml": text})
    assert "na-no-node-matches" in {f["rule"] for f in report["findings"]}
    code, report, _ = lint({"all.yaml": text.replace(before, after)})
    (found,) = (f for f in report["findings"] if f["rule"] == "doc-invalid")
    assert (code, found["object"].split()[0]) == (1, name)
    assert found["message"].startswith(said)
    assert ("na-no-node-matches" in {f["rule"] for f in report["findings"]}) is (name != "Node")


@pytest.mark.parametrize(("amount", "rule"), [("-1", "api-refused"), ("1e30", "rq-absurd")])
def test_invalid_number_is_a_finding_beside_nodes(lint: Lint, amount: str, rule: str) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4}}\n"
    files = {"all.yaml": "---\n".join((node, BUDGET, WEB.replace("cpu: 1,", f"cpu: {amount},")))}
    code, report, _ = lint(files)
    assert (code, rule in {f["rule"] for f in report["findings"]}) == (1, True)


def test_quantities_of_custom_resources_are_read(lint: Lint) -> None:
    rollout = WEB.replace("apps/v1", "argoproj.io/v1alpha1").replace("Deployment", "Rollout")
    _, report, _ = lint({"all.yaml": rollout.replace("cpu: 1,", "cpu: 1 GB,")})
    (found,) = (f for f in report["findings"] if f["rule"] == "doc-invalid")
    assert found["path"] == "spec.template.spec.containers[0].resources.requests.cpu"


def test_claim_templates_that_are_no_list_are_a_finding(lint: Lint) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4}}\n"
    wrong = WEB.replace("Deployment", "StatefulSet").replace("spec:\n", "spec:\n  volumeClaimTemplates: 1\n", 1)
    _, report, _ = lint({"all.yaml": f"{node}---\n{wrong}"})
    assert "spec.volumeClaimTemplates: expected a list, got an integer" in {f["message"] for f in report["findings"]}


NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4}}\n"
PICKY = WEB.replace("beta.kubernetes.io/os: linux", "pool: gone")


@pytest.mark.parametrize(
    ("files", "is_cluster"),
    [
        ({"nodes.yaml": NODE, "web.yaml": PICKY}, True),
        ({"nodes.yaml": NODE, "apps/web.yaml": PICKY}, True),
        ({"a/nodes.yaml": NODE, "a/web.yaml": PICKY}, True),
        ({"test/nodes.yaml": NODE, "web.yaml": PICKY}, False),
        ({"test/nodes.yaml": NODE, "testing/web.yaml": PICKY}, False),
        ({"a.yaml": NODE, "b.yaml": NODE, "web.yaml": PICKY}, False),
        ({"a.yaml": NODE, "b.yaml": NODE.replace("n1", "n2"), "web.yaml": PICKY}, True),
    ],
)
def test_nodes_of_an_example_are_not_the_cluster_of_all_manifests(
    lint: Lint, files: dict[str, str], is_cluster: bool
) -> None:
    """A repository is not one cluster. Nodes count for the manifests beside and below them, if each exists once."""
    _, report, err = lint(files)
    assert ("na-no-node-matches" in {f["rule"] for f in report["findings"]}) is is_cluster
    assert ("are linted only as manifests" in err) is not is_cluster


def test_nodes_in_a_given_file_count(lint: Lint, capsys: pytest.CaptureFixture[str]) -> None:
    lint({"test/nodes.yaml": NODE, "web.yaml": PICKY})
    for files in (("test/nodes.yaml", "web.yaml"), ("test/nodes.yaml", ".")):
        main(["lint", *files, "-o", "json"])
        assert "na-no-node-matches" in {f["rule"] for f in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.parametrize(
    ("files", "warning"),
    [
        (
            {"cluster.yaml": f"{NODE}---\n{WEB}", "new.yaml": PICKY},
            "is in {}new.yaml and in {}cluster.yaml; if ",
        ),
        ({"cluster.yaml": NODE, "new.yaml": PICKY}, ""),
        ({"cluster.yaml": f"{NODE}---\n{WEB}", "new.yaml": PICKY.replace("name: web", "name: api")}, ""),
    ],
)
def test_changed_object_of_a_described_cluster_is_named(lint: Lint, files: dict[str, str], warning: str) -> None:
    """Two versions of an object are alternatives, so findings about the new one are merged with those about the old."""
    _, _, err = lint(files)
    assert ("--with-cluster" in err) is bool(warning)
    if warning:
        folder = err.partition(" is in ")[2].partition("new.yaml")[0]
        assert warning.format(folder, folder) in err
