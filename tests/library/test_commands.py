"""Check that the JSON of each command equals that of its library function."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from metrics_texts import write_attempts, write_queues

import kschedctl
from kschedctl import demo
from kschedctl.api.ownership import Owner
from kschedctl.cli.main import main
from kschedctl.commands.audit.audited_cluster import PriorityLimits
from kschedctl.commands.consolidate.plan import ConsolidationCriteria
from kschedctl.commands.size.sizing import SizingCriteria
from kschedctl.commands.whatif import build_version_settings
from kschedctl.reports.document import Document

NOW = demo.DEMO_TIME
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "new", "namespace": "shop"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "new"}},
        "template": {
            "metadata": {"labels": {"app": "new"}},
            "spec": {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "300m"}}}]},
        },
    },
}
PENDING = "shop/web-6d4cf56db6-h8s2k"
NODE, ZONE = "general-a1", "topology.kubernetes.io/zone"
REFUSED = "shop/checkout-7d9f6c5b8-x2x4q"
GATED = "batch/nightly-export-5hx2p"
AS_TOLD: Any = {"now": NOW, "as_written": True}
EVENT = {"action": "Add", "new": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n9"}}}
BINDING = {
    "kind": "Binding",
    "apiVersion": "v1",
    "metadata": {"name": PENDING.partition("/")[2], "namespace": "shop", "creationTimestamp": NOW},
    "target": {"kind": "Node", "name": NODE},
}
STEPS = {"steps": [{"cordon": {"nodes": [NODE]}}]}
Asked = Callable[[kschedctl.Cluster], Document]
ON_THE_DEMO: dict[str, tuple[list[str], Asked]] = {
    "explain": (["explain", PENDING], lambda c: kschedctl.explain(c, PENDING, remedies=True, now=NOW)),
    "explain, of a gated pod": (["explain", GATED], lambda c: kschedctl.explain(c, GATED, remedies=True, **AS_TOLD)),
    "explain, no remedies": (["explain", PENDING, "--no-remedies"], lambda c: kschedctl.explain(c, PENDING, now=NOW)),
    "pending": (["explain", "-A"], lambda c: kschedctl.pending(c, now=NOW)),
    "pending in a namespace": (["explain", "-n", "shop"], lambda c: kschedctl.pending(c, "shop", now=NOW)),
    "remedies": (["remedies", PENDING], lambda c: kschedctl.remedies(c, PENDING)),
    "remedies, with room": (["remedies", REFUSED], lambda c: kschedctl.remedies(c, REFUSED)),
    "pending_remedies": (["remedies", "-A"], kschedctl.pending_remedies),
    "pending_remedies in a namespace": (["remedies", "-n", "shop"], lambda c: kschedctl.pending_remedies(c, "shop")),
    "make_room": (["make-room", REFUSED], lambda c: kschedctl.make_room(c, REFUSED)),
    "make_room, manifests": (["make-room", "-f", "WEB"], lambda c: kschedctl.make_room(c, [WEB])),
    "wakes": (["wakes", PENDING], lambda c: kschedctl.wake_ups(c, PENDING)),
    "wakes_by": (["wakes", "-A", "--event", "EVENT"], lambda c: kschedctl.wakes_by(c, [EVENT])),
    "wakes_by, of a pod": (["wakes", REFUSED, "--event", "EVENT"], lambda c: kschedctl.wakes_by(c, [EVENT], [REFUSED])),
    "wakes_by, in a namespace": (
        ["wakes", "-n", "shop", "-l", "app=checkout", "--event", "EVENT"],
        lambda c: kschedctl.wakes_by(c, [EVENT], namespace="shop", selector="app=checkout"),
    ),
    "pending_wake_ups": (["wakes", "-A"], kschedctl.pending_wake_ups),
    "pending_wake_ups in a namespace": (
        ["wakes", "-n", "shop", "-l", "app=checkout"],
        lambda c: kschedctl.pending_wake_ups(c, "shop", selector="app=checkout"),
    ),
    "packing": (["packing", "--nodes", "2"], lambda c: kschedctl.packing(c, nodes=2)),
    "packing, as usual": (["packing"], kschedctl.packing),
    "priorities": (
        ["priorities", "--grow", "3", "--starving-after", "1m"],
        lambda c: kschedctl.priorities(c, PriorityLimits(3, starving_seconds=60), now=NOW),
    ),
    "topology": (["topology"], kschedctl.topology),
    "topology, of a workload": (
        ["topology", "deploy/web", "-n", "shop", "--key", ZONE],
        lambda c: kschedctl.topology(c, [Owner("Deployment", "", "web")], namespace="shop", keys=[ZONE]),
    ),
    "sampling_costs": (
        ["sampling", "--kinds", "2", "--max-loss", "3"],
        lambda c: kschedctl.sampling_costs(c, kinds=2, max_loss=3),
    ),
    "sampling_costs, of a pod": (["sampling", PENDING], lambda c: kschedctl.sampling_costs(c, [PENDING])),
    "races": (["races", "--runs", "2", "--duration", "30s"], lambda c: kschedctl.races({"runs": 2, "seconds": 30}, c)),
    "size": (["size", "--by-nodes"], lambda c: kschedctl.size(c, criteria=SizingCriteria(by_nodes=True))),
    "rebalance": (["rebalance"], lambda c: kschedctl.rebalance(c, now=NOW)),
    "consolidate": (["consolidate"], kschedctl.consolidate),
    "consolidate, for more": (
        ["consolidate", "--headroom-for", "WEB", "--keep-zone-loss", "--pool-label", ZONE],
        lambda c: kschedctl.consolidate(
            c,
            ConsolidationCriteria(keep_zone_loss=True),
            headroom_for=[WEB],
            autoscaler=kschedctl.scale_down(c, pool_label=ZONE, now=NOW),
        ),
    ),
    "follow_rollout": (
        ["simulate", "--follow", "BINDING"],
        lambda c: kschedctl.follow_rollout(c, [BINDING]),
    ),
    "simulate": (["simulate", "-f", "WEB"], lambda c: kschedctl.simulate(c, [WEB])),
    "simulate, pending too": (["simulate", "--pending"], lambda c: kschedctl.simulate(c, [], pending=True)),
    "capacity": (["capacity", "-f", "WEB", "--max", "5"], lambda c: kschedctl.capacity(c, [WEB], most=5)),
    "drain": (["drain", NODE], lambda c: kschedctl.drain(c, [NODE])),
    "failures": (["failures", "--nodes"], lambda c: kschedctl.failures(c, "node")),
    "whatif": (["whatif", json.dumps(STEPS)], lambda c: kschedctl.whatif(c, STEPS)),
    "whatif, versions": (
        ["whatif", "--compare-version", "1.33", "1.36"],
        lambda c: kschedctl.whatif(c, None, build_version_settings(("1.33", "1.36"))),
    ),
    "lint": (["lint"], lambda c: kschedctl.lint(cluster=c)),
    "lint, manifests": (["lint", "WEB"], lambda c: kschedctl.lint(["WEB"], cluster=c)),
    "audit": (["audit"], lambda c: kschedctl.audit(c, now=NOW)),
    "cluster_metrics": (
        ["watch", "--losses", "zone", "--room-for", "WEB"],
        lambda c: kschedctl.cluster_metrics(c, [WEB], units=["zone"], now=NOW),
    ),
    "queues": (["queues"], lambda c: kschedctl.queues(c, now=NOW)),
    "pools": (["pools"], lambda c: kschedctl.pools(c, now=NOW)),
    "scale up": (
        ["scale", "up", "--pool-label", ZONE],
        lambda c: kschedctl.scale_up(c, pool_label=ZONE, now=NOW),
    ),
    "scale down": (
        ["scale", "down", "--pool-label", ZONE],
        lambda c: kschedctl.scale_down(c, pool_label=ZONE, now=NOW),
    ),
}


def read_output(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Return the JSON that a command has printed."""
    assert main([*arguments, "-o", "json"]) in (0, 1, 5), arguments
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def cluster() -> kschedctl.Cluster:
    return kschedctl.Cluster.from_paths(list(demo.list_files()), assume_complete=True)


@pytest.mark.parametrize("name", ON_THE_DEMO)
def test_command_equals_its_function(
    name: str,
    cluster: kschedctl.Cluster,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command, ask = ON_THE_DEMO[name]
    monkeypatch.chdir(tmp_path)
    for file, document in {"WEB": WEB, "EVENT": EVENT, "BINDING": BINDING}.items():
        Path(file).write_text(json.dumps(document))
    assert read_output(capsys, *command, "--demo") == ask(cluster).to_dict()


def test_saved_snapshots_are_compared(
    cluster: kschedctl.Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = str(tmp_path / "before.ksnap"), str(tmp_path / "after.ksnap")
    cluster.save(files[0])
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "another"}}
    kschedctl.Cluster.from_objects([node]).save(files[1])
    before, after = map(kschedctl.Cluster.from_snapshot, files)
    assert kschedctl.diff(cluster, before).changes == ()
    report = kschedctl.diff(before, after, files)
    assert len(report.changes) > len(cluster.nodes)
    assert read_output(capsys, "snapshot", "diff", *files) == report.to_dict()


def test_wakes_between_two_snapshots(
    cluster: kschedctl.Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = str(tmp_path / "before.ksnap"), str(tmp_path / "after.ksnap")
    cluster.save(files[0])
    kschedctl.Cluster.from_paths([*demo.list_files(), _write_document(tmp_path, EVENT["new"])]).save(files[1])
    before, after = map(kschedctl.Cluster.from_snapshot, files)
    report = kschedctl.wakes_between(before, after, names=files)
    assert report.changes
    assert read_output(capsys, "wakes", "-A", "--between", *files) == report.to_dict()
    one = kschedctl.wakes_between(before, after, [REFUSED], names=files)
    assert read_output(capsys, "wakes", REFUSED, "--between", *files) == one.to_dict()


CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 1,
}
WITHOUT_A_CLUSTER: dict[str, tuple[list[str], Callable[[], Document]]] = {
    "versions": (["versions"], kschedctl.version_changes),
    "versions, two": (["versions", "1.34", "1.36"], lambda: kschedctl.version_changes("1.34", "1.36")),
    "config view": (["config", "view"], kschedctl.effective_configuration),
    "config view, of a file": (
        ["config", "view", "FILE", "--kube-version", "1.33"],
        lambda: kschedctl.effective_configuration(CONFIGURATION, kube_version="1.33"),
    ),
    "latency": (["latency", "--metrics", "METRICS"], lambda: kschedctl.latency([METRICS])),
}
METRICS = write_attempts({0.004: 90, 0.05: 10}) + write_queues()


@pytest.mark.parametrize("name", WITHOUT_A_CLUSTER)
def test_command_without_a_cluster_equals_its_function(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, ask = WITHOUT_A_CLUSTER[name]
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text(json.dumps(CONFIGURATION))
    Path("METRICS").write_text(METRICS)
    document = read_output(capsys, *command)
    assert {**document, "source": ""} == {**ask().to_dict(), "source": ""}


def test_configuration_check_equals_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Only the command also knows the line."""
    file = _write_document(tmp_path, {**CONFIGURATION, "percentageOfNodesToScore": 101})
    document = read_output(capsys, "config", "check", file)
    report = kschedctl.check_configuration({**CONFIGURATION, "percentageOfNodesToScore": 101})
    places = {"file", "line", "column", "fingerprint"}
    assert all(finding["file"] == file and finding["line"] == 1 for finding in document["findings"])
    both = [
        [{key: value for key, value in finding.items() if key not in places} for finding in found["findings"]]
        for found in (document, report.to_dict())
    ]
    assert both[0] == both[1] != []


def _write_document(folder: Path, document: Any) -> str:
    file = folder / "written.json"
    file.write_text(json.dumps(document))
    return str(file)


def test_every_function_is_compared() -> None:
    """Functions without a command are steps of others.

    Those of Karpenter are compared in the tests of their commands.
    """
    compared = {name.split(",")[0].split(" in ")[0].replace(" ", "_") for name in ON_THE_DEMO} | {"diff", "Cluster"}
    without = {"admit", "follow", "kueue_admission", "run_queue", "sampling", "wake_ups"}
    compared |= {"wakes_between", "latency", "check_configuration", "effective_configuration", "version_changes"}
    elsewhere = {"provision", "disrupt"}
    assert {*kschedctl.PUBLIC_NAMES} - without - elsewhere == compared


@pytest.mark.parametrize("name", sorted(kschedctl.PUBLIC_NAMES))
def test_every_function_has_an_example(name: str) -> None:
    """The example itself is run with all docstrings."""
    function = getattr(import_module(f"kschedctl.{kschedctl.PUBLIC_NAMES[name]}"), name)
    assert ">>> " in function.__doc__
