"""Check that nouns and verbs are singular in reports on one node, one pod and one workload."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kschedctl.commands.audit.latency.verdicts import _format_count_of
from kschedctl.commands.explain.pod_group_page import _describe_pod_counts
from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.scheduler.plugins.node_resources.fit import TooManyPods

PLURALS = (
    *("pods", "nodes", "replicas", "workloads", "classes", "budgets", "claims", "volumes", "devices", "zones", "hosts"),
    *("domains", "changes", "times", "replays", "candidates", "sections", "terms", "objects", "sets", "plans", "moves"),
    *("findings", "rules", "instance types", "usable nodes", "are", "were", "have", "exist", "get", "wait", "find"),
)
DISAGREES = re.compile(rf"(?<![\d.,/:=-])\b1 (?:{'|'.join(PLURALS)})\b|\b1 \w+s are\b")
UPSTREAM = re.compile(r"0/1 nodes are available[^\n]*")
"""kube-scheduler's own message, which is shown as it is."""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: "%(cpu)s", memory: 8Gi, pods: "%(pods)s"}, conditions: [{type: Ready, status: "True"}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, namespace: d, uid: %(name)s, labels: {app: web}}
spec: {%(node)spriority: 0, containers: [{name: c, image: x, resources: {requests: {cpu: "3"}}}]}
status: {phase: %(phase)s}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: d}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "3"}}}]}
"""
RUNNING = POD % {"name": "old", "node": "nodeName: n1, ", "phase": "Running"}
PENDING = POD % {"name": "web", "node": "", "phase": "Pending"}
CLUSTERS = {
    "no cpu": "---".join((NODE % {"cpu": "4", "pods": "10"}, RUNNING, PENDING)),
    "no room for a pod": "---".join((NODE % {"cpu": "8", "pods": "1"}, RUNNING, PENDING)),
    "room": "---".join((NODE % {"cpu": "8", "pods": "10"}, RUNNING, PENDING)),
    "cordoned": "---".join((NODE % {"cpu": "8", "pods": "10"} + "spec: {unschedulable: true}\n", RUNNING, PENDING)),
}
COMMANDS = (
    *("explain d/web", "explain -A", "remedies d/web", "remedies -A", "audit", "drain n1", "failures --zones"),
    *("pools", "wakes d/web", "packing", "topology", "make-room d/web", "consolidate", "sampling", "watch", "failures"),
    *("explain d/web -o wide", "remedies d/web -o markdown", "explain d/web -o json", "explain d/web --brief"),
)
Write = Callable[..., str]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("command", COMMANDS)
def test_reports_use_the_singular(run: Any, write: Write, command: str, cluster: str) -> None:
    path = write(*yaml.safe_load_all(CLUSTERS[cluster]))
    found = run(*command.split(), "-f", path)
    assert found.code not in {2, 4}, found.err
    assert not DISAGREES.search(UPSTREAM.sub("", found.out + found.err)), found.out


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_answers_about_a_deployment_of_one_use_the_singular(run: Any, write: Write, cluster: str) -> None:
    path = write(*yaml.safe_load_all(CLUSTERS[cluster] + "---" + DEPLOYMENT))
    for command in ("lint", "explain Deployment/web -n d", "simulate", "audit"):
        found = run(*command.split(), "-f", path)
        assert not DISAGREES.search(UPSTREAM.sub("", found.out + found.err)), found.out


def test_check_finds_wrong_plurals() -> None:
    assert DISAGREES.search("1 are missing")
    assert DISAGREES.search("1 of 4: 1 pods get a node")
    assert not DISAGREES.search("of 1,000 pods 21 nodes are full, 1 is missing, 1 pod waits")


def test_facts_about_one_object_use_the_singular() -> None:
    group = PodGroupReport(name="d/g", verdict="NotTried", min_count=2, pods=1, scheduled=0, missing=1)
    assert _describe_pod_counts(group) == "1 exists, 0 of them with a node, 1 is missing"
    assert TooManyPods(1, 1).describe() == "the node already runs its maximum of 1 pod"
    assert _format_count_of(1.0, "pod") == "1 pod"
