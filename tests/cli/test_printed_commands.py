"""Check that every printed command line runs and asks about the same cluster as the answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from command_line import NOTHING_ELSE, Json, Run, build_node, build_pod, shorten_searches
from metrics_texts import write_attempts, write_queues, write_sample
from printed_commands import answer_command_line, list_printed_commands, list_text_formats, parse_source
from sources.live.api_server import answer_lists, serve_api, write_kubeconfig

import kschedctl
from kschedctl.cli import source as cli_source
from kschedctl.cli.main import COMMANDS
from kschedctl.cli.options import Scope, Source
from kschedctl.commands.audit.next_commands import CLUSTER_WIDE_COMMANDS, COMMAND_BY_RULE
from kschedctl.commands.browse.session import BrowseSession
from kschedctl.errors import UsageError
from kschedctl.sources.archive_file import write_archive

WITHOUT_ANSWER = {"browse", "completion", "help", "instance-types", "mcp", "schema", "provision", "watch"}
"""Commands that print what no cluster is behind, or none to type next; what browse copies has a test of its own."""
SCHEDULER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
LONG_AGO = "2026-05-06T05:00:00Z"


def build_owned_object(found: Json, kind: str, owner: str) -> Json:
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "controller": True, "uid": owner}]
    return found | {"metadata": found["metadata"] | {"ownerReferences": owners}}


def build_old_pod(found: Json, phase: str = "Pending") -> Json:
    status = {"phase": phase, "startTime": LONG_AGO}
    return found | {"metadata": found["metadata"] | {"creationTimestamp": LONG_AGO}, "status": status}


def build_objects() -> list[Json]:
    """Build a pod for each fate for which an answer suggests another command, in several namespaces."""
    zones = {"a1": "east", "a2": "east", "b1": "west", "b2": "west"}
    nodes = [build_node(name) for name in zones]
    for each in nodes:
        each["metadata"]["labels"]["topology.kubernetes.io/zone"] = zones[each["metadata"]["name"]]
    web = [
        build_owned_object(
            build_old_pod(build_pod(f"web-{i}", "1500m", "shop", f"w{i}", nodeName="a1"), "Running"),
            "ReplicaSet",
            "web-5f",
        )
        for i in "12"
    ]
    replicas: Json = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-5f", "namespace": "shop"},
    }
    replicas["spec"] = build_deployment("1500m")["spec"] | {"replicas": 2}
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    pending = [
        build_pod("big", "99", "fid", "big"),
        build_pod("tight", "3900m", "fid", "tight", nodeSelector={"kubernetes.io/hostname": "a1"}),
        build_pod("gated", "1", "shop", "gated", schedulingGates=[{"name": "example.com/wait"}]),
        build_pod("odd", "1", "shop", "odd", schedulerName="volcano"),
        build_pod(
            "starving",
            "3900m",
            "shop",
            "starving",
            priorityClassName="urgent",
            priority=1000,
            preemptionPolicy="Never",
            nodeSelector={"kubernetes.io/hostname": "a1"},
        ),
        build_pod("fits", "1", "shop", "fits"),
    ]
    others = [
        build_old_pod(build_pod(f"b{i}", "3", "shop", f"b{i}", nodeName=name), "Running")
        for i, name in enumerate(("a2", "b1"))
    ]
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in ("default", "fid", "full", "shop")
    ]
    most = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "full"},
        "status": most,
    }
    return [
        *namespaces,
        quota,
        urgent,
        *nodes,
        build_owned_object(replicas, "Deployment", "web"),
        *web,
        *others,
        *map(build_old_pod, pending),
    ]


Place = dict[str, str]
"""The path of each file that the questions name."""


class Where(NamedTuple):
    """A cluster and how a command line names it."""

    options: tuple[str, ...]
    place: Place
    gated: bool = False


def build_deployment(cpu: str) -> Json:
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 9, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Write files with a blank in their path, which a shell would split."""
    folder = tmp_path_factory.mktemp("on call")
    written: dict[str, Any] = {
        "web": build_deployment("2"),
        "scenario": {"steps": [{"drain": {"selector": "kubernetes.io/hostname in (a1, general-a1)"}}]},
        "config": SCHEDULER | {"profiles": [{"schedulerName": "default-scheduler"}]},
        "state": {"apiVersion": "v1", "kind": "List", "items": [*build_objects(), *NOTHING_ELSE]},
    }
    found = {}
    for name, document in written.items():
        path = folder / name / f"{name}.json"
        path.parent.mkdir()
        path.write_text(json.dumps(document))
        found[name] = str(path)
    others = {"snapshot": "prod.ksnap", "copy": "copy of prod.ksnap", "metrics": "metrics"}
    found |= {name: str(folder / file) for name, file in others.items()} | {"state": str(folder / "state")}
    for name in ("snapshot", "copy"):
        write_archive(kschedctl.Cluster.from_objects([*build_objects(), *NOTHING_ELSE]), found[name])
    slow = (
        write_attempts({0.5: 1000}) + write_attempts({0.5: 100}, "error") + write_attempts({0.5: 100}, "unschedulable")
    )
    Path(found["metrics"]).write_text(
        slow + write_queues(active=900, backoff=900, unschedulable=900) + write_sample("x", 1)
    )
    return found


@pytest.fixture(scope="module", params=["demo", "snapshot", "files", "live"])
def where(request: pytest.FixtureRequest, place: Place) -> Iterator[Where]:
    more = (
        "--config",
        place["config"],
        "--kube-version",
        "1.34",
        "--feature-gates",
        "NodeInclusionPolicyInPodTopologySpread=true",
    )
    match request.param:
        case "demo":
            yield Where(("--demo", *more), place)
        case "snapshot":
            yield Where(("--snapshot", place["snapshot"], *more), place)
        case "files":
            yield Where(("-f", place["state"], "-R", "--assume-complete", *more), place)
        case _:
            with serve_api(answer_lists(build_objects())) as api:
                config = Path(place["config"]).with_name("kubeconfig")
                yield Where(
                    (
                        "--kubeconfig",
                        write_kubeconfig(api.url, config, namespace=""),
                        "--context",
                        "here",
                        "--as",
                        "on call",
                        "--as-group",
                        "sre",
                        "--request-timeout",
                        "1m",
                        *more,
                    ),
                    place,
                )


PODS = {"demo": ("shop/checkout-7d9f6c5b8-x2x4q", "general-a1"), "else": ("fid/big", "a1")}
QUESTIONS = (
    "explain -A",
    "explain",
    "explain {pod}",
    "explain {pod} --scheduler-name default-scheduler",
    "explain {pod} --as-if cpu=2",
    "explain {name} -n {namespace}",
    "explain deploy/web -n shop",
    "explain -f {web} -n shop",
    "explain -f {web} -n full",
    "remedies -A",
    "remedies {pod}",
    "remedies -f {web} -n full",
    "remedies deploy/web -n shop",
    "wakes -A",
    "wakes {pod}",
    "wakes -f {web} -n full",
    "simulate -f {web} -n shop",
    "simulate -f {web} -n shop --rollout",
    "simulate -f {web} -n full",
    "simulate --pending",
    "capacity -f {web} -n shop",
    "capacity -f {web} -n full",
    "make-room {pod}",
    "consolidate",
    "rebalance",
    "size",
    "drain {node}",
    "drain {node} --seed 3 --sampling --start-index 1",
    "failures --nodes",
    "failures --zones",
    "whatif {scenario}",
    "audit --metrics {metrics}",
    "audit --now 2026-05-06T09:12:00Z",
    "packing --nodes 1",
    "priorities --now 2026-05-06T09:12:00Z",
    "sampling",
    "sampling {pod}",
    "sampling -f {web} -n full",
    "topology",
    "pools",
    "queues",
    "scale up --pool-label kubernetes.io/hostname",
    "scale down --pool-label kubernetes.io/hostname",
    "races --nodes 10 --duration 1s",
)
"""Asked about each cluster."""
OF_NO_CLUSTER = (
    "demo",
    "latency --metrics {metrics}",
    "config check {config}",
    "config view {config}",
    "lint {state}",
    "lint rules",
    "lint explain pdb-zero-disruptions",
    "snapshot show {snapshot}",
    "snapshot diff {snapshot} {snapshot}",
    "simulate --pending --snapshot {snapshot} --snapshot {copy}",
    "drain a1 --snapshot {snapshot} --snapshot {copy}",
    "version",
    "versions 1.33 1.36",
)


class Line(NamedTuple):
    """A command line, and the one whose answer prints it."""

    command: str
    question: list[str]


class Runs:
    """The questions that were asked in a folder, with the printed answers."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.clusters: dict[str, Any] = {}
        self.seen: set[str] = set()
        self.answered: set[tuple[str, ...]] = set()
        """The sorted words of the questions that were answered, which need not be run again."""
        self.faults: list[str] = []

    def read(self, *about: Any) -> Any:
        """Read the cluster that the options name once."""
        key = repr(about)
        if key not in self.clusters:
            self.clusters[key] = READ(*about)
        return self.clusters[key]

    def lines(self, question: list[str]) -> Iterator[Line]:
        answer = answer_command_line(question)
        assert answer is not None
        assert answer.exit_code in (0, 1, 5), question
        self.answered.add(tuple(sorted(question)))
        for form in list_text_formats(question):
            with suppress(UsageError):  # of findings, where the answer is none
                yield from (Line(command, question) for command in sorted(list_printed_commands(answer, form)))

    def check(self, line: Line) -> None:
        if line.command in self.seen:
            return
        self.seen.add(line.command)
        try:
            words = shlex.split(line.command)[1:]
        except ValueError as error:
            self.faults.append(f"{line.command}\n  of {line.question}: {error}")
            return
        if tuple(sorted(words)) not in self.answered:
            with shorten_searches():
                outcome = self.run(*words)
            if outcome.code not in (0, 1, 5) or "error:" in outcome.err:
                self.faults.append(f"{line.command}\n  of {line.question}: {outcome.code} {outcome.err}")
                return
        if parse_source(words) not in list_cluster_sources(line.question):
            self.faults.append(f"{line.command}\n  of {line.question}: asks about another cluster")


READ = cli_source._read_cluster


def list_cluster_sources(question: list[str]) -> list[Source]:
    """Return the source options for a question, which use one of several snapshots."""
    if question[0] == "demo":
        return [Source(demo=True)]
    source = parse_source(question)
    return [replace(source, snapshot=[one]) for one in source.snapshot] or [source]


@pytest.fixture
def runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs(run)
    monkeypatch.setattr(cli_source, "_read_cluster", made.read)
    return made


def test_printed_commands_run(where: Where, runs: Runs) -> None:
    pod, node = PODS["demo" if "--demo" in where.options else "else"]
    namespace, name = pod.split("/")
    lines = []
    for question in QUESTIONS:
        words = [w.format(**where.place, pod=pod, node=node, namespace=namespace, name=name) for w in question.split()]
        lines += list(runs.lines([*words, *where.options]))
    assert lines
    for line in lines:
        runs.check(line)
    assert not runs.faults, "\n".join(runs.faults)


@pytest.mark.parametrize("question", OF_NO_CLUSTER)
def test_printed_commands_of_further_answers_run(
    question: str, place: Place, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_api(answer_lists(build_objects())) as api:
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "kubeconfig"))
        for line in runs.lines([word.format(**place) for word in question.split()]):
            runs.check(line)
    assert not runs.faults, "\n".join(runs.faults)


def test_every_command_is_covered() -> None:
    questions = {question.split()[0] for question in (*QUESTIONS, *OF_NO_CLUSTER)}
    assert questions == COMMANDS.keys() - WITHOUT_ANSWER


def test_commands_in_the_help_of_lint_rules_run(where: Where, runs: Runs) -> None:
    """This includes rules without a finding in any of the clusters."""
    pod, node = PODS["demo" if "--demo" in where.options else "else"]
    question = ["audit", *where.options]
    for command, *arguments in COMMAND_BY_RULE.values():
        object_ = () if arguments or command in CLUSTER_WIDE_COMMANDS else (node if command == "drain" else pod,)
        for told in parse_source(question).build_command(command, *object_, arguments):
            runs.check(Line(told, question))
    assert not runs.faults, "\n".join(runs.faults)


def test_commands_copied_by_browse_run(where: Where, runs: Runs) -> None:
    pod, _ = PODS["demo" if "--demo" in where.options else "else"]
    question = ["browse", *where.options]
    session = BrowseSession(kschedctl.Cluster(), parse_source(question), Scope(scheduler_name="volcano"))
    for command, words in (("explain", ""), ("explain", "cpu=1 tolerate=gpu=a100:NoSchedule"), ("remedies", "")):
        runs.check(Line(session.build_question_command(command, pod, words), question))
    assert not runs.faults, "\n".join(runs.faults)


def test_check_notices_a_command_that_fails(runs: Runs) -> None:
    question = ["explain", "-A", "--demo"]
    for command in ("explain shop/no-such --demo", "explain -A --no-such --demo", "explain 'a --demo", "versions"):
        runs.check(Line(f"kschedctl {command}", question))
    assert len(runs.faults) == 4
