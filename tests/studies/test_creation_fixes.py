"""What is suggested where quotas refuse pods: done as it is printed, all pods are created."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from test_admitted_again import cluster
from test_counted_pods import Json, deployment, quota, simulated

from kschedctl.reports.not_created import CreationFix
from kschedctl.studies.explain import explain


def patched(found: Json, command: str) -> Json:
    """The quota as kubectl leaves it, once its controller has seen that."""
    words = shlex.split(command)
    assert words[:3] == ["kubectl", "patch", "resourcequota"]
    assert (words[3], words[5], words[6]) == (found["metadata"]["name"], found["metadata"]["namespace"], "--type=merge")
    hard = {**found["spec"]["hard"], **json.loads(words[8])["spec"]["hard"]}
    return {**found, "spec": {**found["spec"], "hard": hard}, "status": {**found["status"], "hard": hard}}


@pytest.mark.parametrize(
    ("used", "hard", "what"),
    [
        ({"pods": "1"}, {"pods": "2"}, "raise ResourceQuota q to pods=7"),
        (
            {"pods": "0", "requests.cpu": "900m"},
            {"pods": "9", "requests.cpu": "1"},
            "raise ResourceQuota q to requests.cpu=1500m",
        ),
        (
            {"pods": "0", "requests.cpu": "0"},
            {"pods": "1", "requests.cpu": "250m"},
            "raise ResourceQuota q to pods=6, requests.cpu=600m",
        ),
    ],
    ids=["pods", "cpu", "both"],
)
def test_a_quota_is_raised_by_as_much_as_is_missing(used: Json, hard: Json, what: str) -> None:
    """Six pods of 100m; what is in use besides is counted too."""
    found, web = quota("q", used, hard), deployment(6)
    (lacking,) = simulated([found], web).not_created
    (fix,) = lacking.fixes
    assert fix.what == what
    (command,) = fix.commands
    assert simulated([patched(found, command)], web).good
    told = explain(cluster(found), web).not_created
    assert told is not None
    assert told.fixes == (fix,)


def test_what_a_quota_wants_said() -> None:
    found = quota("q", {"requests.cpu": "0"}, {"requests.cpu": "1"})
    (lacking,) = simulated([found], deployment(2, None)).not_created
    assert lacking.fixes == (CreationFix("set requests.cpu for: c"),)
    assert simulated([found], deployment(2, "1m")).good


def test_no_quota_helps_who_is_refused_before() -> None:
    bounds = [{"type": "Container", "max": {"cpu": "50m"}}]
    metadata = {"name": "l", "namespace": "shop"}
    limits: Any = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": bounds}}
    (lacking,) = simulated([quota("q", {"pods": "0"}, {"pods": "0"}), limits], deployment(1, "100m")).not_created
    assert not lacking.fixes


def test_several_quotas_are_raised_together() -> None:
    both = [quota("a", {"pods": "0"}, {"pods": "1"}), quota("b", {"pods": "0"}, {"pods": "2"})]
    (lacking,) = simulated(both, deployment(3)).not_created
    (fix,) = lacking.fixes
    assert fix.what == "raise ResourceQuota a to pods=3 and ResourceQuota b to pods=3"
    commands = {shlex.split(command)[3]: command for command in fix.commands}
    assert simulated([patched(each, commands[each["metadata"]["name"]]) for each in both], deployment(3)).good
