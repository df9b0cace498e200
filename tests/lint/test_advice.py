"""Check that findings say how to correct a field, for all faulty fields of an object and in every output form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kschedctl.cli.main import main

Lint = Callable[..., tuple[int, str, str]]

FAULTY = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: "3"
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: wep}}
    spec:
      nodeselector: {disk: ssd}
      tolerations: [{key: nvidia.com/gpu=present, effect: NoSchedule}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedul, labelSelector: {matchLabels: {app: web}}}
      containers:
      - name: web
        image: web
        resources: {requests: {cpu: 500, memory: 512M}, limits: {cpu: "1", memory: 256Mi}}
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: base}
spec:
  template:
    spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}, requirements: []}
  disruption: {consolidationPolicy: WhenUnderutilized}
"""
SCALER = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: frontend}
  minReplicas: 2
  maxReplicas: 4
"""


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lint:
    """Return a function that lints a manifest and returns the exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def run(text: str, *options: str) -> tuple[int, str, str]:
        Path("web.yaml").write_text(text)
        code = main(("lint", "web.yaml", *options))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def join(text: str) -> str:
    """Return a text on one line with single spaces."""
    return " ".join(text.split())


def test_all_faulty_fields_have_a_correction(lint: Lint) -> None:
    code, out, _ = lint(FAULTY)
    text = join(out)
    assert code == 1
    assert "spec.replicas: expected an integer, got a string → Write 3, without quotes" in text
    assert "does not match template `labels` → Give the pod template the label app=web" in text
    assert '"spec.template.spec.nodeselector" → Did you mean "nodeSelector"?' in text
    assert "→ Write key: nvidia.com/gpu, value: present" in text
    assert '"ScheduleAnyway" → Did you mean DoNotSchedule?' in text
    assert "less than or equal to cpu limit of 1 → Request at most 1 of cpu, or raise the limit" in text
    assert "less than or equal to memory limit of 256Mi" in text
    assert "tt-empty-value" not in text
    assert "--show-fixes says how to fix each finding; --fix corrects 2 of them" in text


def test_field_of_the_wrong_type_causes_no_further_errors(lint: Lint) -> None:
    """The label 5 is no string. That the selector does not match it is the same mistake."""
    text = FAULTY.replace("{app: wep}", "{app: 5}").replace('"3"', "3")
    _, out, _ = lint(text, "--select", "api-refused", "-o", "json")
    assert "expected a string, got an integer" in out
    assert "does not match template" not in out


def test_sentence_ends_with_one_punctuation_mark(lint: Lint) -> None:
    _, out, _ = lint(FAULTY, "-o", "github")
    assert '. Did you mean "nodeSelector"?\n' in out
    assert not any(line.endswith(("?.", "..")) for line in out.splitlines())


def test_short_form_has_the_worst_findings(lint: Lint) -> None:
    _, out, _ = lint(FAULTY, "--brief")
    lines = out.splitlines()
    assert len(lines) <= 12
    assert lines[0].startswith("7 errors")
    assert "web.yaml:5 error: Deployment shop/web: spec.replicas: expected an integer" in join(out)


@pytest.mark.parametrize(("options", "named"), [((), False), (("--demo",), True)])
def test_cluster_is_mentioned_only_if_there_is_one(lint: Lint, options: tuple[str, ...], named: bool) -> None:
    _, out, _ = lint(FAULTY, "-o", "html", *options)
    assert "current context" not in out
    assert ("<dt>cluster" in out or ">cluster<" in out) is named


def test_consolidation_policy_of_another_version(lint: Lint) -> None:
    _, out, _ = lint(POOL, "--select", "api-refused")
    text = join(out)
    assert "spec.disruption.consolidateAfter: Required value" in text
    assert 'supported values: "WhenEmpty", "WhenEmptyOrUnderutilized"' in text
    _, out, _ = lint(POOL.replace("karpenter.sh/v1", "karpenter.sh/v1beta1"), "--select", "api-refused")
    assert "Nothing found" in out


def test_autoscaler_target_is_guessed_by_its_name(lint: Lint) -> None:
    """No target is guessed if the named workload exists."""
    web = FAULTY.replace('"3"', "3")
    _, out, _ = lint(f"{web}---\n{SCALER}", "--select", "hpa-misspelt")
    assert 'Deployment "frontend" does not exist, but "web" does and has no autoscaler' in join(out)
    other = web.replace("name: web, namespace", "name: frontend, namespace")
    _, out, _ = lint(f"{web}---\n{other}---\n{SCALER}", "--select", "hpa-misspelt")
    assert "Nothing found" in out


def test_unfixable_findings_and_unknowns_are_reported(lint: Lint) -> None:
    _, out, err = lint(SCALER, "--diff")
    assert (out, "nothing to change" in err) == ("", True)
    assert "did you mean rq-absurd" in lint(SCALER, "--select", "rq-absrd")[2]


@pytest.mark.parametrize(
    ("name", "is_reported"), [("high-preempting", True), ("high-nopreempt", False), ("never-preempt", False)]
)
def test_name_that_rules_out_preemption_is_not_reported(lint: Lint, name: str, is_reported: bool) -> None:
    """The class never preempts, and only a name that suggests preemption is misleading."""
    priority_class = (
        f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: 5\n"
        "preemptionPolicy: Never\ndescription: Goes first in the queue\n"
    )
    _, out, _ = lint(priority_class, "--select", "pc-never-but-urgent")
    assert ("pc-never-but-urgent" in out) is is_reported


@pytest.mark.parametrize(
    ("values", "consequence"),
    [
        ({"gold": 5}, "so its pods have priority 0 and are the first to be preempted"),
        ({"gold": 5, "low": -10}, "so its pods have priority 0: only pods of low are preempted before them"),
    ],
)
def test_workload_without_a_class_is_preempted_after_pods_of_lower_classes(
    lint: Lint, values: dict[str, int], consequence: str
) -> None:
    kind = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n"
    classes = "".join(f"---\n{kind}metadata: {{name: {name}}}\nvalue: {value}\n" for name, value in values.items())
    web = FAULTY.replace('"3"', "3")
    gold = web.replace("name: web", "name: db").replace("nodeselector: {disk: ssd}", "priorityClassName: gold")
    _, out, _ = lint(f"{web}---\n{gold}{classes}", "--select", "pc-not-set")
    assert consequence in join(out)


def test_missing_class_suggests_a_similar_one(lint: Lint) -> None:
    """An abbreviation is no misspelling, so the suggestion is a question."""
    urgent = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: team-a-hi}\nvalue: 5\n"
    web = FAULTY.replace('"3"', "3").replace("nodeselector: {disk: ssd}", "priorityClassName: team-a-high")
    _, out, _ = lint(web + urgent, "--select", "pc-missing")
    text = join(out)
    assert '"team-a-high" does not exist → Create the PriorityClass, or did you mean team-a-hi?' in text


@pytest.mark.parametrize(
    "field",
    [
        "nodeSelector: {example.com/pool: genral}",
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchExpressions: [{key: example.com/pool, operator: In, values: [genral]}]}]}}}",
    ],
)
def test_misspelled_label_value_suggests_that_of_the_nodes(lint: Lint, field: str) -> None:
    web = FAULTY.replace('"3"', "3").replace("nodeselector: {disk: ssd}", field)
    _, out, _ = lint(web, "--demo", "--select", "na-no-node-matches")
    assert "→ Did you mean example.com/pool=general?" in join(out)
    _, out, _ = lint(web.replace("genral", "absent"), "--demo", "--select", "na-no-node-matches")
    assert "Did you mean" not in out


@pytest.mark.parametrize(("name", "is_suggested"), [("fastt", True), ("archive", False)])
def test_missing_storage_class_suggests_a_similar_one(lint: Lint, name: str, is_suggested: bool) -> None:
    Path("cluster.yaml").write_text(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: csi\n"
    )
    claim = (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop}\n"
        f"spec: {{accessModes: [ReadWriteOnce], storageClassName: {name}, resources: {{requests: {{storage: 1Gi}}}}}}\n"
    )
    options = ("--with-cluster", "cluster.yaml", "--assume-complete", "--select", "vl-missing")
    text = join(lint(claim, *options)[1])
    assert f'"{name}" not found' in text
    assert ("Create the object, or did you mean fast?" in text) is is_suggested
