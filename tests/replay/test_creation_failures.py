"""Check recorded failures to create pods, from conditions and events, without outdated ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import failed_creations
import pytest
from failed_creations import BEFORE, LATER, TIME, build_objects, get_case, get_error_message, read_cases

import kschedctl
from kschedctl.api.ownership import Owner
from kschedctl.replay.controllers.creation_failures import CreationFailures, find_unread_kinds

Json = dict[str, Any]
QUOTA, STATEFUL, JOB = get_case(1), get_case(22), get_case(26)


def find_creation_failures(documents: list[Json], **settings: Any) -> CreationFailures:
    return CreationFailures(kschedctl.Cluster.from_objects(documents, **settings), LATER)


def drop_kinds(documents: list[Json], *kinds: str) -> list[Json]:
    return [each for each in documents if each["kind"] not in kinds]


def find_object(documents: list[Json], kind: str) -> Json:
    return next(each for each in documents if each["kind"] == kind)


@pytest.mark.parametrize("case", read_cases(), ids=lambda each: each["case"])
def test_reason_of_the_api_server_and_number_of_missing_pods(case: Json) -> None:
    (found,) = find_creation_failures(build_objects(case, replicas=6, there=5)).report_current_failures()
    kind = case["workload"]["kind"]
    assert found.workload == f"{kind} {case['namespace']}/web"
    assert (found.wanted, found.there, found.missing, found.object, found.past) == (6, 5, 1, "Pod", False)
    assert found.headline.startswith("1 of 6 pods (6 wanted, 5 exist): ")
    assert found.headline.endswith(get_error_message(case))
    warnings = [event for event in case["events"] if event["type"] == "Warning"]
    assert found.failures[0].times == max(event["count"] for event in warnings)
    assert found.failures[0].age == "10m"


@pytest.mark.parametrize(
    "case", [each for each in read_cases() if "ReplicaSet" in each["conditions"]], ids=lambda c: c["case"]
)
@pytest.mark.parametrize("gone", [("Event",), ("Event", "Deployment"), ("Event", "ReplicaSet"), ("Deployment",)])
def test_conditions_or_events_are_enough(case: Json, gone: tuple[str, ...]) -> None:
    (found,) = find_creation_failures(drop_kinds(build_objects(case, replicas=3), *gone)).report_current_failures()
    assert found.workload.endswith("/web")
    assert (found.wanted, found.there, found.missing) == (3, 0, 3)
    assert found.headline.endswith(get_error_message(case))


def test_event_is_enough_if_workloads_were_not_read() -> None:
    documents = drop_kinds(build_objects(QUOTA, replicas=3, there=1), "Deployment", "ReplicaSet")
    (found,) = find_creation_failures(documents, assume_complete=False).report_current_failures()
    assert found.workload == "Deployment adm-rs-01/web"  # by the hash in the pod's labels
    assert (found.wanted, found.there, found.missing) == (None, 1, None)
    assert found.headline.startswith("pods (1 exists, the wanted number is unknown): exceeded quota")
    assert find_creation_failures(documents).report_current_failures() == ()  # all is known: its ReplicaSet is gone


@pytest.mark.parametrize("number", [1, 22, 26])
def test_failure_is_past_if_all_pods_exist(number: int) -> None:
    lacking = get_case(number)
    found = find_creation_failures(build_objects(lacking, replicas=2, there=2))
    assert found.report_current_failures() == ()
    told = found.report_workload(Owner(lacking["workload"]["kind"], lacking["namespace"], "web"))
    assert told is not None
    assert told.past
    assert told.headline.startswith("some could not be created 10 min ago, all exist now: exceeded quota")


@pytest.mark.parametrize(("created", "past"), [(BEFORE, False), (TIME, False), (LATER, True)])
def test_event_is_past_once_a_later_pod_was_created(created: str, past: bool) -> None:
    """A StatefulSet has no condition. Within one second, some pods may be created before one is denied."""
    found = find_creation_failures(build_objects(STATEFUL, replicas=3, there=2, created=created))
    told = found.report_workload(Owner("StatefulSet", STATEFUL["namespace"], "web"))
    assert told is not None
    assert told.past is past
    assert bool(found.report_current_failures()) is not past


def test_condition_is_current_whenever_the_last_pod_was_created() -> None:
    """A ReplicaSet's controller removes it as soon as a pod is created."""
    documents = drop_kinds(build_objects(QUOTA, replicas=3, there=2, created=LATER), "Event")
    assert [each.missing for each in find_creation_failures(documents).report_current_failures()] == [1]


def change_object(documents: list[Json], kind: str, part: str, **fields: Any) -> list[Json]:
    find_object(documents, kind)[part].update(fields)
    return documents


@pytest.mark.parametrize(
    "ended",
    [
        lambda: change_object(build_objects(JOB), "Job", "spec", suspend=True),
        lambda: change_object(build_objects(JOB), "Job", "status", conditions=[{"type": "Complete", "status": "True"}]),
        lambda: change_object(
            change_object(build_objects(JOB), "Job", "spec", completions=3), "Job", "status", succeeded=3
        ),
        lambda: change_object(build_objects(QUOTA), "ReplicaSet", "metadata", deletionTimestamp=LATER),
        lambda: change_object(build_objects(STATEFUL), "Event", "involvedObject", uid="of another one of that name"),
    ],
    ids=["suspended", "complete", "all completions there", "leaving", "of an earlier one"],
)
def test_workload_with_all_desired_pods_lacks_none(ended: Callable[[], list[Json]]) -> None:
    assert find_creation_failures(ended()).report_current_failures() == ()


def test_ended_and_terminating_pods_do_not_count() -> None:
    documents = build_objects(QUOTA, replicas=3, there=2)
    maker = find_object(documents, "ReplicaSet")
    documents.append(failed_creations.build_pod(maker, 7, BEFORE, phase="Failed"))
    leaving = failed_creations.build_pod(maker, 8, BEFORE)
    leaving["metadata"]["deletionTimestamp"] = TIME
    (found,) = find_creation_failures([*documents, leaving]).report_current_failures()
    assert (found.wanted, found.there, found.missing) == (3, 2, 1)


def test_surge_of_a_rollout_counts_as_desired() -> None:
    """All pods of the old template exist, and the new ReplicaSet's pod cannot be created."""
    documents = build_objects(QUOTA, replicas=1)
    find_object(documents, "Deployment")["spec"]["replicas"] = 3
    old = failed_creations.build_replica_set(QUOTA, 3)
    old["metadata"] |= {"name": "web-old", "uid": "uid-old"}
    old["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = "old"
    old["status"] = {}
    pods = [failed_creations.build_pod(old, number, BEFORE) for number in range(3)]
    (found,) = find_creation_failures([*documents, old, *pods]).report_current_failures()
    assert (found.workload, found.wanted, found.there, found.missing) == ("Deployment adm-rs-01/web", 4, 3, 1)
    deployment = find_object(documents, "Deployment")  # the same where only the Deployment was printed
    deployment["status"] |= {"replicas": 3, "updatedReplicas": 0}
    (alone,) = find_creation_failures([*drop_kinds(documents, "ReplicaSet", "Event"), *pods]).report_current_failures()
    assert alone.headline.startswith("pods of its new template (3 wanted, 3 exist): exceeded quota")


def test_deployment_whose_replica_set_cannot_be_created() -> None:
    """The words are those of the deployment controller in pkg/controller/deployment/sync.go (v1.36)."""
    said = 'Failed to create new replica set "web-5d": replicasets.apps "web-5d" is forbidden: exceeded quota: rq'
    condition = {"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError", "message": said}
    documents = drop_kinds(build_objects(QUOTA, replicas=3), "ReplicaSet", "Event")
    find_object(documents, "Deployment")["status"]["conditions"] = [condition]
    (found,) = find_creation_failures(documents).report_current_failures()
    assert (found.object, found.missing) == ("ReplicaSet", None)
    assert found.headline == "its new ReplicaSet (3 wanted, 0 exist): replicasets.apps web-5d: exceeded quota: rq"


def build_cron_event(message: str) -> Json:
    about = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "web", "namespace": "d"}
    names = {"name": "e", "namespace": "d"}
    said = {"reason": "FailedCreate", "message": message, "type": "Warning", "count": 2, "lastTimestamp": TIME}
    return {"apiVersion": "v1", "kind": "Event", "metadata": names, "involvedObject": about, **said}


def build_created_job(created: str) -> Json:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "web", "controller": True}
    meta = {"name": "web-1", "namespace": "d", "uid": "j", "creationTimestamp": created, "ownerReferences": [owner]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"template": {"spec": {"containers": []}}},
    }


def test_cron_job_whose_jobs_cannot_be_created() -> None:
    """The words are those of pkg/controller/cronjob/cronjob_controllerv2.go (v1.36)."""
    event = build_cron_event(
        'Error creating job: jobs.batch "web-2" is forbidden: exceeded quota: rq, requested: count=1'
    )
    (found,) = find_creation_failures([event, build_created_job(BEFORE)]).report_current_failures()
    assert (found.workload, found.object) == ("CronJob d/web", "Job")
    assert found.headline == "its next Job: jobs.batch web-2: exceeded quota: rq, requested: count=1"
    assert find_creation_failures([event, build_created_job(LATER)]).report_current_failures() == ()


def test_pods_of_a_cron_jobs_jobs() -> None:
    documents = build_objects(JOB)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": True}
    find_object(documents, "Job")["metadata"]["ownerReferences"] = [owner]
    (found,) = find_creation_failures(documents).report_current_failures()
    assert (found.workload, found.wanted, found.missing) == ("CronJob adm-rs-26/nightly", 1, 1)
    assert find_creation_failures(documents).report_workload(Owner("Job", "adm-rs-26", "web")) is not None


@pytest.mark.parametrize(("wanted", "missing"), [(4, 2), (2, 0)])
def test_daemon_set_wants_as_many_pods_as_its_status_says(wanted: int, missing: int) -> None:
    documents = build_objects(STATEFUL, replicas=3, there=2)
    for each in documents:
        if each["kind"] == "StatefulSet":
            each |= {"kind": "DaemonSet", "status": {"desiredNumberScheduled": wanted}}
        for about in (each.get("involvedObject", {}), *each["metadata"].get("ownerReferences", ())):
            about["kind"] = "DaemonSet"
            about.pop("uid", None)
    found = find_creation_failures(documents).report_current_failures()
    assert [each.missing for each in found] == ([missing] if missing else [])


def test_unread_kinds_are_named() -> None:
    cluster = kschedctl.Cluster.from_objects([], assume_complete=False)
    assert [each.kind for each in find_unread_kinds(cluster, "Deployment")] == ["ReplicaSet", "Deployment", "Event"]
    assert [each.kind for each in find_unread_kinds(cluster, "StatefulSet")] == ["StatefulSet", "Event"]
    assert {each.affects for each in find_unread_kinds(cluster)} == {"creation"}
    assert find_unread_kinds(kschedctl.Cluster.from_objects([])) == ()
