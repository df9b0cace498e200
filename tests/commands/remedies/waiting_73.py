"""A recorded control plane (1.36) on which 73 pods of 46 workloads wait, and their fixes, searched for once."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain_in_cluster, resolve_pod
from kschedctl.commands.explain.report import Explanation
from kschedctl.fixes.new_node import find_autoscaler_fixes, predict_new_node
from kschedctl.fixes.search import MOST_TRIALS, RemedySearch
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.scheduler.scheduler import Scheduler

RECORDING = Path(__file__).parents[2] / "field" / "queue" / "waiting-73.json.gz"
NOW = "2026-06-01T00:00:00Z"


@cache
def build_documents() -> list[dict[str, Any]]:
    with gzip.open(RECORDING, "rt", encoding="utf-8") as file:
        return list(json.load(file)["items"])


@cache
def build_cluster() -> Cluster:
    return Cluster.from_objects(build_documents())


@cache
def build_scheduler() -> Scheduler:
    """Return the scheduler of all questions, so that the queue is replayed without a fix only once."""
    return Scheduler(build_cluster())


@cache
def explain_waiting_pod(pod: str) -> Explanation:
    """Return what ``explain`` answers about a waiting pod. The search for fixes has no time limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemedySearch, "_has_reached_limit", lambda search: search.trials.replayed > MOST_TRIALS)
        return explain_in_cluster(
            TargetPod(build_scheduler(), resolve_pod(build_scheduler(), pod)),
            lambda target: predict_new_node(target, NOW),
            lambda target, launched_node: find_autoscaler_fixes(target, launched_node, NOW),
            remedies=True,
        )
