"""Command lines and their files: every command with typical, mostly broken input.

What is made wrong: the demo, recordings of a real cluster, the goldens' objects and configurations, charts, examples of
lint's rules, scenarios, snapshots, settings and baselines.
"""

from __future__ import annotations

import gzip
import json
import lzma
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from mutation import damage, mutate, write_documents
from operations import GATES, build_configuration_without_plugins, damage_documents

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "kschedctl"
TEMPLATES = (
    "jsonpath={.kind}",
    "jsonpath={..[",
    "jsonpath={.x[?(@.a>1)]}",
    "custom-columns=A:.verdict",
    "custom-columns=A",
)
FORMATS = ("table", "table", "wide", "json", "yaml", "markdown", "csv", "name", "\x00", *TEMPLATES)
LINT_FORMATS = ("table", "wide", "json", "yaml", "sarif", "junit", "github", "markdown", *TEMPLATES)
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Json = dict[str, Any]


@dataclass
class Input:
    """A command line with its files and its standard input."""

    arguments: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""


def make(seed: str, snapshot: bytes, command: str = "") -> Input:
    """Build the input of this seed from a valid snapshot, for one command or for any."""
    rng = random.Random(seed)
    command = command or rng.choices(list(COMMANDS), [weight for weight, _ in COMMANDS.values()])[0]
    return COMMANDS[command][1](rng, snapshot)


# -- what is sound ------------------------------------------------------------------------------------------------


@cache
def read_demo() -> list[Json]:
    return build_documents((PACKAGE / "demo" / "cluster.yaml").read_text())


def build_documents(text: str) -> list[Json]:
    return [document for document in yaml.load_all(text, _LOADER) if document]


@cache
def read_recording() -> list[Json]:
    with lzma.open(TESTS / "recordings" / "pending.json.xz", "rt") as lines:
        found: list[Json] = json.loads(next(lines))["objects"]
        return found


@cache
def read_golden_cases(family: str) -> list[str]:
    with lzma.open(TESTS / "golden" / f"{family}.jsonl.xz", "rt") as lines:
        return [line for line in lines if len(line) < 40_000][:60]


@cache
def read_manifests() -> list[str]:
    charts = [*(TESTS / "lint" / "charts").glob("*.yaml"), *(PACKAGE / "lint" / "examples").glob("*.yaml")]
    texts = [path.read_text() for path in sorted(charts)]
    return [text.partition("# bad\n")[2] or text for text in texts]  # what an example says of itself is no YAML


@cache
def read_configurations() -> list[Json]:
    """Return the configurations of the golden cases."""
    with gzip.open(TESTS / "golden" / "configurations.jsonl.gz", "rt") as lines:
        found = [json.loads(line).get("document") for line in lines]
    cases = (json.loads(line).get("config") for line in read_golden_cases("config"))
    return [document for document in (*found, *cases) if document]


MANY_STEPS = 40
SCENARIO = {
    "apiVersion": "kschedctl.dev/v1",
    "kind": "Scenario",
    "name": "all steps",
    "steps": [
        {"cordon": {"nodes": ["node-1"], "selector": "kubernetes.io/os=linux"}},
        {"uncordon": {"nodes": ["node-1"]}},
        {"taint": {"nodes": ["node-1"], "add": [{"key": "a", "value": "b", "effect": "NoExecute"}]}},
        {"label": {"nodes": ["node-1"], "labels": {"zone": "a", "b": None}}},
        {"addNodes": {"count": 2, "like": "node-1", "name": "more", "labels": {"a": "b"}}},
        {"addNodes": {"template": {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}}},
        {"scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 30}},
        {"apply": {"manifests": [], "files": [], "rollout": True}},
        {"priorityClass": {"name": "high", "value": 1000, "workloads": [{"namespace": "shop", "name": "web"}]}},
        {"configure": {"configuration": {}}},
        {"drain": {"nodes": ["node-1"]}},
        {"removeNodes": {"nodes": ["node-2"]}},
        {"fail": {"zone": "a", "pool": "p", "nodes": ["node-3"]}},
    ],
}
SETTINGS = {
    "lint": {
        "select": ["ts-*", "pdb-*"],
        "ignore": ["ts-missing"],
        "fail-on": "error",
        "baseline": "baseline.json",
        "severity": {"ts-missing": "note"},
    }
}
BASELINE = {
    "apiVersion": "kschedctl.dev/v1",
    "kind": "LintBaseline",
    "findings": [{"fingerprint": "0f", "rule": "ts-missing", "object": "Deployment web", "path": "spec", "file": "a"}],
}
WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      volumes:
      - name: v
        ephemeral:
          volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
      containers:
      - {name: c, image: a, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 500m, memory: 1Gi}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: a, resources: {requests: {cpu: 1}}}]}
  volumeClaimTemplates:
  - metadata: {name: d}
    spec: {accessModes: [ReadWriteOnce], storageClassName: s, resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: job}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      parallelism: 2
      completions: 3
      completionMode: Indexed
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: a, resources: {requests: {cpu: 1}}}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: a}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {minReplicas: 2, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 50%, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: shop}
spec: {hard: {pods: 5}, scopeSelector: {matchExpressions: [{operator: In, scopeName: PriorityClass, values: [high]}]}}
"""


def draw_cluster(rng: random.Random) -> tuple[list[Json], Json | None]:
    """Draw the objects of a cluster and the configuration of its scheduler."""
    kind = rng.random()
    if kind < 0.15:
        return read_demo(), None
    if kind < 0.25:
        return read_recording(), None
    family = rng.choice((*FAMILIES, "dra"))
    case = json.loads(rng.choice(read_golden_cases(family)))
    if rng.random() < 0.5:
        replace_expressions(rng, case["objects"])
    pod = [case["pod"]] if isinstance(case.get("pod"), dict) else []
    return [*case["objects"], *pod], case.get("config")


def replace_expressions(rng: random.Random, found: Any) -> None:
    """Replace some CEL expressions by others."""
    for inner in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        replace_expressions(rng, inner)
    if isinstance(found, dict) and isinstance(found.get("expression"), str) and rng.random() < 0.5:
        old, at = found["expression"], rng.randrange(len(found["expression"]) + 1)
        found["expression"] = rng.choice((rng.choice(EXPRESSIONS), old[:at] + rng.choice("()[]'.!?:0\\\n") + old[at:]))


EXPRESSIONS = (
    *("", "true", "1", "(" * 3000, "!" * 9000 + "true", "-" * 9000 + "1 == 1", "[" * 3000, "{" * 3000, "device", "'"),
    *(
        "device" + ".a" * 4000,
        "'\\" + "a" * 9000,
        '"' + "\\\\" * 4000,
        "1" * 9000 + " == 1",
        "1 ? " * 2000 + "1",
        "\x00",
    ),
    *("true && " * 1000 + "true", "[1].all(x, " * 500 + "true" + ")" * 500, "device.driver.matches('(a+)+$')"),
    *("'a'.format([1])", "'%s%d%f'.format([1, 'x', true])", "quantity('1e999999999').isGreaterThan(quantity('1'))"),
    *("semver('1.0.0-" + "9" * 5000 + "').major() == 1", "9223372036854775807 + 1 == 0", "1 / 0 == 1", "1.0e999 > 0.0"),
    *("'" + "a" * 5000 + "'.matches('" + "(a*)*" * 500 + "b')", "[1, 2].map(x, [1, 2].map(y, x * y)).size() == 2"),
    *("'aaaa'.replace('', '" + "b" * 5000 + "').size() > 0", "bind(x, 1, x)", "cel.bind(x, cel.bind(y, 1, y), x) == 1"),
)
FAMILIES = sorted(path.name.removesuffix(".jsonl.xz") for path in (TESTS / "golden").glob("*.jsonl.xz"))


# -- what is wrong ------------------------------------------------------------------------------------------------


def write_faulty_documents(rng: random.Random, found: list[Any], padding: bool = True) -> bytes:
    """Return the documents as bytes with one or two kinds of faults, sometimes longer than a MiB."""
    if padding and rng.random() < 0.04:
        return _build_long_list(rng, found)
    objects = any(isinstance(document, dict) and "metadata" in document for document in found)
    if objects and rng.random() < 0.3:
        data = write_documents(rng, damage_documents(rng, found))
        return damage(rng, data) if rng.random() < 0.1 else data
    if rng.random() < 0.75:
        where = rng.randrange(len(found)) if found else 0
        times = rng.choice((1, 1, 1, 2, 3))
        found = [mutate(rng, d, times) if i == where or rng.random() < 0.02 else d for i, d in enumerate(found)]
    data = write_documents(rng, found)
    return damage(rng, data) if rng.random() < 0.25 else data


def _build_long_list(rng: random.Random, found: list[Any]) -> bytes:
    """Build a JSON list of more than a MiB with unique names and a fault in an item or in the bytes."""
    kind = rng.choice(("Pod", "Node", ""))
    some = [d for d in found if not kind or d.get("kind") == kind] or found
    items = []
    size = 0
    while size < 1_100_000:
        item = dict(rng.choice(some))
        item["metadata"] = {**(item.get("metadata") or {}), "name": f"x{len(items)}"}
        items.append(item)
        size += len(json.dumps(item))
    if rng.random() < 0.6:
        at = rng.randrange(len(items))
        items[at] = mutate(rng, items[at], rng.choice((1, 2)))
    head = {"apiVersion": "v1", "kind": f"{kind}List", "metadata": {}, "items": items}
    data = json.dumps(head).encode("utf-8", "surrogatepass")
    return damage(rng, data) if rng.random() < 0.7 else data


def _draw_arguments(rng: random.Random, chance: float, *arguments: str) -> list[str]:
    return list(arguments) if rng.random() < chance else []


def _draw_source(rng: random.Random, snapshot: bytes, input: Input) -> list[str]:
    """Draw the options and files of a cluster, and add them to the input.

    Return up to 20 names of its pods, or one that does not exist.
    """
    found, config = draw_cluster(rng)
    if rng.random() < 0.15:
        input.arguments += ["--snapshot", "s.ksched"]
        input.files["s.ksched"] = damage(rng, snapshot) if rng.random() < 0.7 else snapshot
    elif rng.random() < 0.1:
        input.arguments += ["--demo"]
    else:
        name = rng.choice(("c.json", "c.yaml", "c.txt"))
        input.arguments += ["-f", name]
        input.files[name] = write_faulty_documents(rng, found) if rng.random() < 0.7 else write_documents(rng, found)
    if rng.random() < 0.1:
        input.arguments += ["--config", "config.yaml"]
        input.files["config.yaml"] = write_documents(rng, [build_configuration_without_plugins(rng)])
    elif (config and rng.random() < 0.7) or rng.random() < 0.1:
        input.arguments += ["--config", "config.yaml"]
        document = [config or rng.choice(read_configurations())]
        input.files["config.yaml"] = (
            write_faulty_documents(rng, document, padding=False)
            if rng.random() < 0.5
            else write_documents(rng, document)
        )
    input.arguments += _draw_arguments(rng, 0.2, "--assume-complete")
    input.arguments += _draw_arguments(rng, 0.1, "--kube-version", rng.choice(("1.30", "1.33", "1.36.2", "x", "1.99")))
    input.arguments += _draw_arguments(rng, 0.08, "--feature-gates", rng.choice(GATES))
    metas = [document["metadata"] for document in found if document.get("kind") == "Pod"]
    return [f"{meta.get('namespace', 'default')}/{meta.get('name', '')}" for meta in metas][-20:] or ["default/pod"]


def _format(rng: random.Random) -> list[str]:
    return ["-o", rng.choice(FORMATS if rng.random() < 0.3 else FORMATS[:8])]


def _explain(rng: random.Random, snapshot: bytes) -> Input:
    """Draw an input for ``explain``."""
    input = Input(["explain"])
    pods = _draw_source(rng, snapshot, input)
    input.arguments += _draw_arguments(rng, 0.6, "-A") + _format(rng)
    if rng.random() < 0.3:
        input.arguments.append(
            rng.choice((*pods[:5], "p", "pod/web", "deploy/web", "lab/p01", "\x1b[2J", "", "a/b/c/d", "\udcff"))
        )
        input.arguments += _draw_arguments(rng, 0.3, "--as-if-priority", rng.choice(("1", "-1", "9" * 30, "x")))
    if rng.random() < 0.1:
        _draw_manifest(rng, input)
    input.arguments += _draw_arguments(rng, 0.1, "-l", rng.choice(("a=b", "a in (b", "!a", "=", "a" * 300)))
    return input


def _draw_manifest(rng: random.Random, input: Input) -> None:
    """Draw a workload manifest, usually a faulty one, and add it to the input."""
    name = rng.choice(("m.yaml", "m.json", "-"))
    kind = rng.random()
    found = build_documents(WORKLOAD if kind < 0.6 else rng.choice(read_manifests()))
    data = write_faulty_documents(rng, found) if rng.random() < 0.7 else WORKLOAD.encode()
    input.arguments += ["-f", name]
    if name == "-":
        input.stdin = data
    else:
        input.files[name] = data


def _simulate(rng: random.Random, snapshot: bytes) -> Input:
    """Draw an input for ``simulate`` or ``capacity``."""
    input = Input([rng.choice(("simulate", "simulate", "capacity"))])
    _draw_source(rng, snapshot, input)
    _draw_manifest(rng, input)
    capacity = input.arguments[0] == "capacity"
    input.arguments += (
        ["--max", "20"] if capacity else _draw_arguments(rng, 0.3, "--rollout") + _draw_arguments(rng, 0.3, "--pending")
    )
    input.arguments += [*_format(rng), *_draw_arguments(rng, 0.2, "-n", rng.choice(("shop", "", "\x00", "x" * 300)))]
    input.arguments += _draw_arguments(rng, 0.1, "--runs", "2", "--jobs", "1")
    return input


def _draw_whatif_input(rng: random.Random, snapshot: bytes) -> Input:
    """Draw an input for ``whatif`` with a scenario of some steps."""
    input = Input(["whatif", "scenario.yaml"])
    _draw_source(rng, snapshot, input)
    names = [d["metadata"]["name"] for d in draw_cluster(rng)[0] if d.get("kind") == "Node"] or ["node-1"]
    steps = rng.sample(SCENARIO["steps"], rng.choice((1, 1, 2, 3)))
    if rng.random() < 0.03:
        steps = rng.choices(SCENARIO["steps"][:4], k=MANY_STEPS)
    text = json.dumps({**SCENARIO, "steps": steps}).replace("node-1", rng.choice(names))
    scenario = json.loads(text)
    for step in scenario["steps"]:
        if "apply" in step:
            step["apply"]["manifests"] = build_documents(WORKLOAD)
            step["apply"]["files"] = rng.choice(([], ["m.yaml"], ["/"], ["scenario.yaml"], ["\x00"]))
        if "configure" in step:
            step["configure"]["configuration"] = rng.choice(read_configurations())
    sound = rng.random() < 0.5
    input.files["scenario.yaml"] = (
        json.dumps(scenario).encode() if sound else write_faulty_documents(rng, [scenario], padding=False)
    )
    input.files["m.yaml"] = write_faulty_documents(rng, build_documents(WORKLOAD), padding=False)
    input.arguments += _format(rng)
    return input


def _draw_study_input(rng: random.Random, snapshot: bytes) -> Input:
    """Draw a command about a whole cluster or one of its pods."""
    of_a_pod = rng.random() < 0.3
    input = Input(rng.choice(OF_A_POD if of_a_pod else OF_A_CLUSTER).split())
    pods = _draw_source(rng, snapshot, input)
    now = rng.choice(("2026-05-06T12:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "x", "2026-05-06"))
    input.arguments += [
        *_format(rng),
        *_draw_arguments(rng, 0.3 * (input.arguments[0] in ("audit", "priorities")), "--now", now),
    ]
    input.arguments += [rng.choice((*pods, "a/b/c"))] if of_a_pod else []
    return input


OF_A_CLUSTER = ("audit", "wakes -A", "priorities", "packing", "topology", "races", "sampling")
TIMED = ("audit", "priorities")
OF_A_POD = ("remedies", "wakes")


def _drain(rng: random.Random, snapshot: bytes) -> Input:
    """Draw an input for ``drain``."""
    input = Input(["drain"])
    _draw_source(rng, snapshot, input)
    input.arguments += rng.choice((["-l", "kubernetes.io/os=linux"], ["-l", "!nope"], ["node-1"], ["-l", "a in ("]))
    input.arguments += _format(rng)
    return input


def _draw_failures_input(rng: random.Random, snapshot: bytes) -> Input:
    """Draw an input for ``failures``."""
    input = Input(["failures"])
    _draw_source(rng, snapshot, input)
    input.arguments += [*rng.choice(([], ["--nodes"], ["--zones"], ["--pools"])), *_format(rng), "--jobs", "1"]
    return input


def _lint(rng: random.Random, snapshot: bytes) -> Input:
    """Draw an input for ``lint``, with a cluster, settings or a baseline in some cases."""
    input = Input(["lint"])
    name = rng.choice(("m.yaml", "m.yaml", "m.json", "-"))
    found = build_documents(WORKLOAD if rng.random() < 0.3 else rng.choice(read_manifests()))
    data = write_faulty_documents(rng, found, padding=False)
    if rng.random() < 0.85:
        input.arguments.append(name)
        input.stdin, input.files = (data, {}) if name == "-" else (b"", {name: data})
    around = rng.random()
    if around < 0.2:
        input.arguments += ["--with-cluster", "c.json"]
        input.files["c.json"] = write_faulty_documents(rng, draw_cluster(rng)[0])
    elif around < 0.3:
        input.arguments += ["--snapshot", "s.ksched"]
        input.files["s.ksched"] = snapshot
    elif around < 0.4:
        input.arguments += ["--demo"]
    if rng.random() < 0.25:
        input.files[".kschedctl.yaml"] = write_faulty_documents(rng, [SETTINGS], padding=False)
    elif rng.random() < 0.15:
        toml = b'[tool.kschedctl.lint]\nselect = ["ts-*"]\nfail-on = "error"\nseverity = {ts-missing = "note"}\n'
        input.files["pyproject.toml"] = damage(rng, toml)
    if rng.random() < 0.2:
        input.files["baseline.json"] = write_faulty_documents(rng, [BASELINE], padding=False)
        input.arguments += ["--baseline", "baseline.json"]
    input.arguments += ["-o", rng.choice(LINT_FORMATS if rng.random() < 0.2 else LINT_FORMATS[:8])]
    return input


def _draw_lint_input(rng: random.Random, snapshot: bytes) -> Input:
    """Draw faulty manifests for lint, four on average, in an otherwise sound input."""
    input = Input(["lint"])
    for i in range(rng.choice((1, 2, 3, 4, 6, 8))):
        found = build_documents(WORKLOAD if rng.random() < 0.3 else rng.choice(read_manifests()))
        input.files[f"m{i}.yaml"] = write_faulty_documents(rng, found, padding=False)
    input.arguments += [*input.files, *_draw_arguments(rng, 0.2, "--demo")]
    input.arguments += rng.choice((["--diff"], ["--fix"], *(["-o", form] for form in LINT_FORMATS[:8])))
    return input


def _draw_config_input(rng: random.Random, snapshot: bytes) -> Input:
    """Draw an input for ``config check`` or ``config view``."""
    action = rng.choice(("check", "check", "view"))
    data = write_faulty_documents(rng, [rng.choice(read_configurations())], padding=False)
    nodes = _draw_arguments(rng, 0.2, "--nodes", rng.choice(("0", "5", "5000", "-1", "9" * 40)))
    return Input(
        [
            "config",
            action,
            "c.yaml",
            *nodes,
            "-o",
            rng.choice(LINT_FORMATS if rng.random() < 0.2 else LINT_FORMATS[:8]),
        ],
        {"c.yaml": data},
    )


def _draw_snapshot_input(rng: random.Random, snapshot: bytes) -> Input:
    """Draw an input for a subcommand of ``snapshot``."""
    broken = {"s.ksched": damage(rng, snapshot), "t.ksched": snapshot}
    kind = rng.random()
    if kind < 0.3:
        return Input(["snapshot", "show", "s.ksched", *_format(rng)], broken)
    if kind < 0.5:
        return Input(["snapshot", "diff", "s.ksched", "t.ksched", *_format(rng)], broken)
    input = Input(["snapshot", "save", "-o", "out.ksched", *_draw_arguments(rng, 0.5, "--anonymize")])
    _draw_source(rng, snapshot, input)
    return input


def _draw_other_input(rng: random.Random, snapshot: bytes) -> Input:
    words = ("demo", "completion", "bash", "lint", "rules", "explain", "--help", "-o", "json", "--version", "\x00", "")
    return Input(rng.sample(words, rng.choice((0, 1, 2, 3))))


COMMANDS: dict[str, tuple[int, Callable[[random.Random, bytes], Input]]] = {
    "explain": (26, _explain),
    "simulate": (20, _simulate),
    "whatif": (12, _draw_whatif_input),
    "studies": (20, _draw_study_input),
    "drain": (5, _drain),
    "failures": (4, _draw_failures_input),
    "lint": (15, _lint),
    "manifests": (5, _draw_lint_input),
    "config": (6, _draw_config_input),
    "snapshot": (6, _draw_snapshot_input),
    "others": (1, _draw_other_input),
}
"""Command -> its percentage of the inputs, and the function that draws the input."""
