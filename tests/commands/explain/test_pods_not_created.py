"""Check that ``kschedctl explain`` reports denied pod creation first, in every form, with exit code 1."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from command_line import Run, Write
from failed_creations import BEFORE, build_objects, get_case, get_error_message, read_cases

SHORT = {"Deployment": "deploy", "StatefulSet": "sts", "Job": "job"}
QUOTA, STATEFUL, JOB = get_case(1), get_case(22), get_case(26)
EXCEEDED = "exceeded quota: rq, requested: pods=1, used: pods=0, limited: pods=0"


def join_lines(text: str) -> str:
    """Return the text without line breaks and cell borders."""
    return " ".join(text.replace("|", " ").split())


@pytest.mark.parametrize("case", read_cases(), ids=lambda each: each["case"])
def test_workload_that_cannot_be_created_is_not_called_schedulable(run: Run, write: Write, case: Any) -> None:
    cluster = write(*build_objects(case, replicas=6, there=5))
    name = f"{SHORT[case['workload']['kind']]}/web"
    code, out, _ = run("explain", name, "-n", case["namespace"], "-f", cluster)
    assert code == 1
    first, told = join_lines(out).split(" Not created: 1 of 6 pods (6 wanted, 5 exist): ")
    assert first == f"{case['workload']['kind']} {case['namespace']}/web"
    assert (
        told.removeprefix("invalid: ")
        .removeprefix("claim data-web-0: ")
        .startswith(join_lines(get_error_message(case)))
    )


@pytest.mark.parametrize("kind", ["deploy/web", "rs/web-6b57ffc4c"])
def test_scheduling_verdict_follows_the_denial(run: Run, write: Write, kind: str) -> None:
    cluster = write(*build_objects(QUOTA, replicas=3))
    report = json.loads(run("explain", kind, "-n", "adm-rs-01", "-f", cluster, "-o", "json").out)
    assert report["verdict"] == "NotCreated"
    assert report["headline"] == f"3 of 3 pods: {EXCEEDED}"
    assert report["onceCreated"]["verdict"] == "Schedulable"
    told = report["notCreated"]
    assert (told["wanted"], told["there"], told["missing"], told["past"]) == (3, 0, 3, False)
    assert told["failures"][0]["message"] == f'pods "web-6b57ffc4c-wpv69" is forbidden: {EXCEEDED}'
    assert report["unknown"] == []
    out = run("explain", kind, "-n", "adm-rs-01", "-f", cluster).out
    assert out.index("Not created") < out.index("once created: Schedulable: on ")


@pytest.mark.parametrize("form", ["table", "wide", "markdown", "html", "csv", "yaml"])
@pytest.mark.parametrize("asked", [("deploy/web", "-n", "adm-rs-01"), ("-A",), ()])
def test_every_form_reports_the_denial(run: Run, write: Write, form: str, asked: tuple[str, ...]) -> None:
    cluster = write(*build_objects(QUOTA, replicas=3))
    code, out, _ = run("explain", *(asked or ("-n", "adm-rs-01")), "-f", cluster, "-o", form)
    assert code == 1
    told = json.dumps(yaml.safe_load(out)) if form == "yaml" else join_lines(out)
    assert EXCEEDED in told
    assert "3 of 3 pods" in told


def test_name_output_goes_to_stdout(run: Run, write: Write) -> None:
    outcome = run("explain", "-A", "-f", write(*build_objects(QUOTA, replicas=3)), "-o", "name")
    assert (outcome.code, outcome.out) == (1, "")
    assert f"not created: Deployment adm-rs-01/web: 3 of 3 pods: {EXCEEDED}" in outcome.err


def test_overview_is_limited_to_the_namespace_and_its_command_runs(run: Run, write: Write) -> None:
    cluster = write(*build_objects(QUOTA, replicas=3), *build_objects(JOB))
    outcome = run("explain", "-A", "-f", cluster)
    assert "2 workloads with pods that could not be created" in outcome.out
    assert [command.split()[2] for command in outcome.commands] == ["deployment/web", "job/web"]
    for command in outcome.commands:
        again = run(*command.split()[1:])
        assert (again.code, " Not created: " in again.out) == (1, True)
    assert run("explain", "-n", "adm-rs-26", "-f", cluster, "-o", "csv").out.count("NotCreated") == 1
    assert run("explain", "-n", "elsewhere", "-f", cluster).code == 2  # the files' namespaces are known, and it is none
    assert run("explain", "-A", "-l", "app=web", "-f", cluster).code == 0  # pods that are not there have no labels


def test_pending_pods_follow_the_denied_pods(run: Run, write: Write) -> None:
    documents = build_objects(QUOTA, replicas=3, there=2)
    for each in documents:
        if each["kind"] == "Pod":
            each["spec"] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "999"}}}]}
            each["status"] = {"phase": "Pending"}
    cluster = write(*documents)
    report = json.loads(run("explain", "deploy/web", "-n", "adm-rs-01", "-f", cluster, "-o", "json").out)
    assert (report["verdict"], report["notCreated"]["missing"]) == ("Unschedulable", 1)
    overview = json.loads(run("explain", "-A", "-f", cluster, "-o", "json").out)
    assert (len(overview["groups"]), len(overview["notCreated"])) == (1, 1)


def test_past_denials_are_reported_as_past(run: Run, write: Write) -> None:
    cluster = write(*build_objects(STATEFUL, replicas=2, there=2))
    code, out, _ = run("explain", "sts/web", "-n", "adm-rs-22", "-f", cluster)
    assert code == 0
    assert join_lines(out).startswith("StatefulSet adm-rs-22/web earlier: some could not be created")
    assert run("explain", "-A", "-f", cluster).code == 0


def test_cron_job_known_only_from_an_event(run: Run, write: Write) -> None:
    about = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "web", "namespace": "adm-rs-01"}
    event = next(each for each in build_objects(QUOTA) if each["kind"] == "Event") | {"involvedObject": about}
    cluster = write(build_objects(QUOTA)[0], event)
    code, out, _ = run("explain", "cronjob/web", "-n", "adm-rs-01", "-f", cluster)
    assert code == 1
    assert join_lines(out).startswith(f"CronJob adm-rs-01/web Not created: its next Job: {EXCEEDED}")
    assert run("explain", "cronjob/other", "-n", "adm-rs-01", "-f", cluster).code == 2


def test_daemon_set_that_lacks_pods(run: Run, write: Write) -> None:
    documents = build_objects(STATEFUL, replicas=2, there=1)
    for each in documents:
        if each["kind"] == "StatefulSet":
            each |= {"kind": "DaemonSet", "status": {"desiredNumberScheduled": 2}}
        for about in (each.get("involvedObject", {}), *each["metadata"].get("ownerReferences", ())):
            about |= {"kind": "DaemonSet", "uid": ""}
    code, out, _ = run("explain", "ds/web", "-n", "adm-rs-22", "-f", write(*documents))
    assert code == 1
    assert join_lines(out).startswith(
        f"DaemonSet adm-rs-22/web Not created: 1 of 2 pods (2 wanted, 1 exists): {EXCEEDED}"
    )


def test_snapshot_keeps_denials_and_anonymizes_their_names(run: Run, write: Write, tmp_path: Any) -> None:
    account = get_case(12)  # error looking up service account adm-rs-12/nope
    cluster, plain, shared = write(*build_objects(account, replicas=2)), str(tmp_path / "a"), str(tmp_path / "b")
    assert run("snapshot", "save", "-f", cluster, "-o", plain).code == 0
    assert run("snapshot", "save", "-f", cluster, "-o", shared, "--anonymize").code == 0
    assert get_error_message(account) in join_lines(run("explain", "-A", "--snapshot", plain).out)
    code, out, _ = run("explain", "-A", "--snapshot", shared, "-o", "json")
    (told,) = json.loads(out)["notCreated"]
    assert (code, told["missing"]) == (1, 2)
    assert told["headline"] == "2 of 2 pods: error looking up service account"
    assert all(name not in out for name in ("web", "adm-rs", "nope"))


def test_old_snapshot_says_that_denials_are_unknown(run: Run, write: Write, tmp_path: Any) -> None:
    """The first snapshots of the format do not say which kinds they contain."""
    import zipfile  # noqa: PLC0415

    path, old = str(tmp_path / "a"), str(tmp_path / "old")
    run("snapshot", "save", "-f", write(build_objects(QUOTA)[0]), "-o", path)
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(old, "w") as less:
        for name in whole.namelist():
            data = whole.read(name)
            header = json.loads(data) if name == "snapshot.json" else {}
            header.pop("kinds", None)
            less.writestr(name, json.dumps(header) if header else data)
    code, out, _ = run("explain", "-A", "--snapshot", old)
    assert code == 0
    assert "Deployments, DaemonSets and Jobs are not in snapshots of that version" in join_lines(out)


def test_answer_says_if_denials_are_unknown(run: Run, write: Write) -> None:
    maker = next(each for each in build_objects(QUOTA) if each["kind"] == "ReplicaSet")
    cluster = write(build_objects(QUOTA)[0], maker, whole=False)
    out = run("explain", "deploy/web", "-n", "adm-rs-01", "-f", cluster, "-o", "json").out
    told = {each["kind"]: each["affects"] for each in json.loads(out)["unknown"]}
    assert (told["Event"], told["Deployment"]) == ("creation", "creation")
    assert "this answer may miss pods that could not be created" in join_lines(run("explain", "-A", "-f", cluster).out)


def test_workload_of_an_unknown_shape_is_not_called_missing(run: Run, write: Write) -> None:
    broken = {**QUOTA["workload"], "metadata": {"name": "web", "namespace": "adm-rs-01", "uid": "u"}, "status": 5}
    out = run("explain", "-A", "-f", write(build_objects(QUOTA)[0], broken)).out
    assert "Deployments could not all be read" in join_lines(out)


def test_workload_that_created_pods_since_is_not_reported(run: Run, write: Write) -> None:
    """The event is older than the newest pod.

    A StatefulSet with fewer pods than desired waits for the previous pod.
    """
    documents = build_objects(STATEFUL, replicas=3, there=2, created="2026-05-06T09:30:00Z")
    assert run("explain", "-A", "-f", write(*documents)).code == 0
    assert run("explain", "-A", "-f", write(*build_objects(STATEFUL, replicas=3, there=2, created=BEFORE))).code == 1
