"""Run the commands for 73 waiting pods of a recorded cluster on a control plane with the API server's rules.

On the real cluster four of 67 commands were refused (``spec.nfs.path: FILL-IN``), a claim's volume was on a node that
did not exist yet, and a selector that comes from a RuntimeClass was dropped from the pod, where admission put it back.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_worlds import World
from control_plane.store import Key, build_owner
from operators import OF_SYSTEMS, Operator

from kschedctl.api.json_values import JsonDict
from kschedctl.commands.remedies.report import Remedies
from kschedctl.reports.remedy import Remedy

Json = dict[str, Any]
RECORDING = Path(__file__).parents[1] / "field" / "queue" / "waiting-73.json.gz"
ITEMS: list[Json] = json.loads(gzip.decompress(RECORDING.read_bytes()))["items"]
LIKE_TINY_3 = ("sim/tiny-4", "sim/tiny-5", "sim/tiny-6", "sim/tiny-7")


def list_one_pod_per_workload() -> list[str]:
    pods: dict[Any, str] = {}
    for item in ITEMS:
        if item["kind"] == "Pod" and not item["spec"].get("nodeName"):
            name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            controller = build_owner(item)
            if name not in LIKE_TINY_3:
                pods.setdefault(controller["uid"] if controller else name, name)
    return list(pods.values())


PODS = list_one_pod_per_workload()


@cache
def ask(name: str, most: int = 1) -> tuple[Operator, Remedies]:
    """Return an operator of the recorded cluster, and the fixes of up to `most` changes for the pod."""
    operator = Operator(World(ITEMS, name, most))
    return operator, operator.find_fixes()


@pytest.mark.parametrize("name", PODS[::3])
def test_every_command_is_accepted_and_places_the_pod(name: str) -> None:
    """For every third workload, all fixes of one change are tried, each with all other waiting pods."""
    operator, told = ask(name)
    for remedy in told.remedies:
        operator.apply_changes(remedy)
        assert operator.is_placed(operator.carry_out(remedy)), (remedy.summary, remedy.commands)


PAIRS = ("pend/pvc-missing", "pend/pvc-nosc", "pend/pvc-topo", "pend/pvc-cpu", "pend/runtime-gv", "pend/sel-host")
"""Pods whose fixes of two changes were refused, or left them waiting, on the real cluster."""


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_changes_place_the_pod(name: str) -> None:
    operator, told = ask(name, 2)
    pairs = [remedy for remedy in told.remedies if len(remedy.kinds) == 2]
    for remedy in pairs[:8]:
        operator.apply_changes(remedy)
        assert operator.is_placed(operator.carry_out(remedy)), (remedy.summary, remedy.commands)


def list_created_nodes(remedy: Remedy) -> list[str]:
    created = (change["create"] for change in remedy.changes if "create" in change)
    nodes = [document for document in created if isinstance(document, dict) and document["kind"] == "Node"]
    return [Key.of(node).name for node in nodes]


def get_created_kind(change: JsonDict) -> str:
    created = change.get("create")
    return str(created["kind"]) if isinstance(created, dict) else ""


@pytest.mark.parametrize("name", ["pend/sel-host", "pend/pvc-cpu", "pend/sts-local-0"])
def test_no_fix_names_a_node_that_it_adds(name: str) -> None:
    """The name of a new node is unknown before it exists, so no command, selector or volume may contain it."""
    adding = [remedy for remedy in ask(name, 2)[1].remedies if "AddNode" in remedy.kinds]
    for remedy in adding:
        by_people = [change for change in remedy.changes if get_created_kind(change) not in {*OF_SYSTEMS, "Pod"}]
        written = json.dumps([by_people, remedy.commands, remedy.manifests, remedy.summary])
        assert not [made_up for made_up in list_created_nodes(remedy) if made_up in written], remedy.summary


def test_selector_of_a_runtime_class_is_not_dropped() -> None:
    """Admission would add it again. The pod may use another RuntimeClass, which also adds its overhead."""
    _, told = ask("pend/runtime-gv")
    (remedy,) = told.remedies
    assert (remedy.kinds, remedy.summary) == (("OtherRuntimeClass",), "Use RuntimeClass kata instead of gvisor")
    assert {"runtimeClassName": "kata", "overhead": {"cpu": "250m", "memory": "160Mi"}}.items() <= (
        remedy.owner_patch["spec"].items()  # type: ignore[union-attr]
    )
    line = "a different node selector: RuntimeClass gvisor requires sandbox=gvisor, and admission would add it back"
    assert line in told.impossible


def test_replacing_a_job_says_what_is_deleted_with_it() -> None:
    """8 pods of Job batch/crunch run and 2 wait. kubectl replace --force deletes all of them."""
    _, told = ask("batch/crunch-2rfjp")
    replacing = [remedy for remedy in told.remedies if any("replace --force" in c for c in remedy.commands)]
    assert replacing
    for remedy in replacing:
        assert "Job batch/crunch and its" in (remedy.weakens or "")
        assert "8 of them on nodes" in (remedy.weakens or "")


def test_pod_is_moved_by_the_eviction_api() -> None:
    """A deletion would ignore PodDisruptionBudgets."""
    _, told = ask("batch/crunch-2rfjp")
    (move,) = (remedy for remedy in told.remedies if remedy.kinds == ("MovePod",))
    cordon, evict, wait, wait_for_replacement, uncordon = move.commands
    assert cordon.startswith("kubectl cordon general-")
    assert " | kubectl create --raw /api/v1/namespaces/shop/pods/" in evict
    assert wait.endswith("--timeout=5m")
    assert wait_for_replacement.startswith("kubectl rollout status -n shop deployment/")
    assert uncordon == cordon.replace("cordon", "uncordon")
