"""Check five recorded clusters with denied pods: explained and simulated with the same words."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import kubectl
from control_plane.store import Store
from failed_creations import Json, build_objects, get_case, get_error_message

import kschedctl
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import Scope, Source
from kschedctl.cli.subjects import find_named_targets
from kschedctl.commands.explain.one_pod import explain_target
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport

LIVE = {
    "quota of 5, 6 wanted": (1, 6, 5),
    "quota of 0, 10 wanted": (1, 10, 0),
    "LimitRange": (4, 3, 0),
    "restricted Pod Security": (14, 2, 0),
    "missing ServiceAccount": (12, 1, 0),
}
"""The recording, the desired and the allowed number of pods, by the reason for the denial."""


def build_surroundings(told: Json, most: int) -> list[Json]:
    """Build the recorded surroundings of the workload, with a quota whose pods are all in use."""
    namespace = told["namespace"]
    metadata = {"name": namespace, "uid": "n", "labels": told["labels"]}
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": namespace}}
    found: list[Json] = [{"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}, account]
    for each in told["objects"]:
        placed = {**each, "metadata": {**each["metadata"], "namespace": namespace}}
        if each["kind"] == "ResourceQuota":
            placed |= {"status": {"hard": {"pods": str(most)}, "used": {"pods": "0"}}}
        found.append(placed)
    return found


@pytest.mark.parametrize(("number", "wanted", "there"), LIVE.values(), ids=LIVE)
def test_simulated(number: int, wanted: int, there: int) -> None:
    told = get_case(number)
    manifest: Any = {**told["workload"], "metadata": {**told["workload"]["metadata"], "namespace": told["namespace"]}}
    manifest["spec"] = {**manifest["spec"], "replicas": wanted}
    cluster = kschedctl.Cluster.from_objects([*build_objects(told)[:1], *build_surroundings(told, there)])
    (lacking,) = simulate(cluster, [manifest]).not_created
    assert (lacking.wanted, lacking.there, lacking.creatable, lacking.missing) == (wanted, 0, there, wanted - there)
    gist = get_error_message(told).partition(", requested")[0]
    assert gist in lacking.failures[0].message


@pytest.mark.parametrize(("number", "wanted", "there"), LIVE.values(), ids=LIVE)
def test_explained(number: int, wanted: int, there: int) -> None:
    told = get_case(number)
    cluster = kschedctl.Cluster.from_objects(build_objects(told, replicas=wanted, there=there))
    inquiry = Inquiry(cluster, now="2026-05-06T09:12:00Z")
    asked, *_ = find_named_targets(
        inquiry, [f"deploy/{told['workload']['metadata']['name']}"], Scope(told["namespace"]), Source()
    )
    report = explain_target(asked)
    assert report.verdict == "NotCreated"
    assert report.not_created is not None
    assert (report.not_created.wanted, report.not_created.there, report.not_created.missing) == (
        wanted,
        there,
        wanted - there,
    )
    assert get_error_message(told) in report.headline


@pytest.mark.parametrize(("number", "wanted", "there"), LIVE.values(), ids=LIVE)
def test_denied_workloads_are_named_beside_the_remedies_of_pending_pods(number: int, wanted: int, there: int) -> None:
    """A pod that cannot be created is not pending, but must be mentioned."""
    cluster = kschedctl.Cluster.from_objects(build_objects(get_case(number), replicas=wanted, there=there))
    (lacking,) = kschedctl.pending_remedies(cluster).not_created
    assert (lacking.wanted, lacking.missing) == (wanted, wanted - there)


def test_security_context_fixes_satisfy_the_api_server() -> None:
    """The recorded pods are created once the fields are set, or the namespace is changed, as the printed command does
    it."""
    told = get_case(14)
    asked, *_ = find_named_targets(
        Inquiry(kschedctl.Cluster.from_objects(build_objects(told, replicas=2, there=0)), now="2026-05-06T09:12:00Z"),
        [f"deploy/{told['workload']['metadata']['name']}"],
        Scope(told["namespace"]),
        Source(),
    )
    assert asked.not_created is not None
    assert [fix.kinds for fix in asked.not_created.fixes] == [("SetSecurityContext",), ("EnforceLess",)]
    for fix in asked.not_created.fixes:
        meta = {**told["workload"]["metadata"], "namespace": told["namespace"]}
        store = Store([*build_surroundings(told, 9), {**told["workload"], "metadata": meta}])
        assert simulate_again(store, told).not_created
        for command in fix.commands:
            kubectl.run(store, command)
        assert not simulate_again(store, told).not_created


def simulate_again(store: Store, told: Json) -> SimulationReport:
    documents = store.documents()
    manifests = [found for found in documents if found["kind"] == "Deployment"]
    others = [found for found in documents if found["kind"] != "Deployment"]
    return simulate(kschedctl.Cluster.from_objects([*build_objects(told)[:1], *others]), manifests)


@pytest.mark.parametrize(
    "more",
    [
        ', privileged (container "c" must not set securityContext.privileged=true)',
        ', runAsUser=0 (container "c" must not set runAsUser=0)',
        ', runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
        ', seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
    ],
)
def test_forbidden_values_without_an_obvious_replacement_are_not_guessed(more: str) -> None:
    told = get_case(14)
    documents = build_objects(told, replicas=2, there=0)
    for found in documents:
        for condition in found.get("status", {}).get("conditions", ()):
            condition["message"] += more
        if "message" in found:
            found["message"] += more
    asked, *_ = find_named_targets(
        Inquiry(kschedctl.Cluster.from_objects(documents), now="2026-05-06T09:12:00Z"),
        [f"deploy/{told['workload']['metadata']['name']}"],
        Scope(told["namespace"]),
        Source(),
    )
    assert asked.not_created is not None
    assert more in asked.not_created.failures[0].message
    assert not asked.not_created.fixes
