"""Check the output forms, exit codes and errors of ``kschedctl wakes``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import msgspec
import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.cluster import Cluster, Provenance
from kschedctl.commands.schema import DOCUMENTS, build_schema
from kschedctl.commands.wakes import many
from kschedctl.sources.archive_file import write_archive

DOCUMENT_NAMES = {
    field.default: name
    for name, document in DOCUMENTS.items()
    if isinstance(document, type)
    for field in msgspec.structs.fields(document)
    if field.name == "kind"
}
"""Kind -> the name of its schema."""


def build_document(out: str, kind: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(out)
    assert found["kind"] == kind
    jsonschema.validate(found, build_schema(DOCUMENTS[DOCUMENT_NAMES[kind]]))
    return found


@pytest.fixture
def cluster(write: Write) -> str:
    return write(
        build_node("n1", "2"),
        build_pod("waits", "3"),
        build_pod("gated", schedulingGates=[{"name": "g"}]),
        build_pod("fits"),
    )


def write_events(tmp_path: Path, *documents: object) -> str:
    path = tmp_path / "events.json"
    path.write_text("\n".join(map(json.dumps, documents)))
    return str(path)


def test_one_pod(run: Run, cluster: str) -> None:
    code, out, err = run("wakes", "waits", "-f", cluster)
    assert (code, err) == (0, "")
    assert (
        out.splitlines()[0]
        == "default/waits is rejected by NodeResourcesFit; 5 kinds of changes would make the scheduler retry it"
    )
    assert "  - a node that offers 3 CPUs is added" in out
    assert build_document(run("wakes", "waits", "-f", cluster, "-o", "json").out, "WakeUps")["queue"] == "unschedulable"
    fits = "default/fits fits now, so no change is needed"
    why_it_waits = f"kschedctl explain default/fits -f {cluster}"
    assert run("wakes", "fits", "-f", cluster).out == f"{fits}\n\nNext\n  {why_it_waits}\n"
    assert run("wakes", "fits", "-f", cluster, "--brief").out == f"{fits}\nmore: {why_it_waits}\n"


def test_all_pods(run: Run, cluster: str) -> None:
    code, out, _ = run("wakes", "-A", "-f", cluster)
    assert code == 0
    assert out.splitlines()[0] == "2 pods across all namespaces wait for a change that makes the scheduler retry them"
    found = build_document(run("wakes", "-A", "-f", cluster, "-o", "json").out, "WakeUpsOfMany")
    assert len(found["pods"]) == 3  # type: ignore[arg-type]
    build_document(run("wakes", "waits", "gated", "-f", cluster, "-o", "json").out, "WakeUpsOfMany")


def test_all_pods_in_the_brief_form(run: Run, write: Write) -> None:
    """Pods with the same plugins share a line, and the last line says how to list the changes for the first pod."""
    gated = build_pod("gated", schedulingGates=[{"name": "g"}])
    cluster = write(
        build_node("n1", "2"), build_pod("waits", "3"), build_pod("waits-too", "4"), gated, build_pod("fits")
    )
    assert run("wakes", "-A", "-f", cluster, "--brief").out.splitlines() == [
        "3 pods across all namespaces wait for a change that makes the scheduler retry them",
        "default/waits and 1 other pod: rejected by NodeResourcesFit",
        "default/fits: fits now, so no change is needed",
        "default/gated: held back by SchedulingGates",
        f"more: kschedctl wakes default/gated -f {cluster}",
    ]


def test_ctrl_c_prints_the_pods_so_far(run: Run, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user interrupts while the second pod is judged, with and without --event."""
    calls = list[int]()

    def interrupt_second_call(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            calls.append(1)
            if len(calls) % 2 == 0:
                raise KeyboardInterrupt
            return function(*arguments)

        return call

    for name in ("build_wake_ups_report", "replay_change"):
        monkeypatch.setattr(many, name, interrupt_second_call(getattr(many, name)))
    options = ("-A", "-f", cluster)
    code, out, err = run("wakes", *options)
    assert (code, err, out.splitlines()[0]) == (130, "", "Interrupted: the pods so far")
    found = build_document(run("wakes", *options, "-o", "json").out, "WakeUpsOfMany")
    assert (found["interrupted"], len(found["pods"])) == (True, 1)  # type: ignore[arg-type]

    options = (*options, "--event", write_events(tmp_path, build_node("n2", "9")))
    code, out, err = run("wakes", *options)
    assert (code, err, out.splitlines()[0]) == (130, "", "Interrupted: the changes found so far")
    found = build_document(run("wakes", *options, "-o", "json").out, "WakesOfMany")
    assert (found["interrupted"], len(found["answers"])) == (True, 1)  # type: ignore[arg-type]


def test_events(run: Run, cluster: str, tmp_path: Path) -> None:
    small, large = build_node("new", "1"), build_node("new", "4")
    code, out, _ = run("wakes", "-A", "-f", cluster, "--event", write_events(tmp_path, small))
    assert (code, out.splitlines()[0]) == (1, "0 of 2 rejected pods across all namespaces are woken by Node new added")
    service = {"kind": "Service", "metadata": {"name": "s"}}
    code, out, _ = run("wakes", "waits", "-f", cluster, "--event", write_events(tmp_path, large, service))
    assert (code, out.splitlines()[0]) == (0, "1 of 1 rejected pod is woken by 2 changes, each applied alone")
    assert "Not watched: Service default/s added" in out
    assert "NodeAdd: Queue by NodeResourcesFit" in out
    found = build_document(
        run("wakes", "-A", "-f", cluster, "--event", write_events(tmp_path, large), "-o", "json").out, "WakesOfMany"
    )
    assert found["fitting"] == ["default/fits"]


def test_deleted_pod_is_not_woken(run: Run, cluster: str, tmp_path: Path) -> None:
    gone = {"action": "Delete", "old": {"kind": "Pod", "metadata": {"name": "waits"}}}
    code, out, _ = run("wakes", "waits", "-f", cluster, "--event", write_events(tmp_path, gone))
    assert (code, out.splitlines()[0]) == (1, "0 of 1 rejected pod is woken by Pod default/waits deleted")


def test_between_two_snapshots(run: Run, write: Write, tmp_path: Path) -> None:
    before, after = str(tmp_path / "a.ksnap"), str(tmp_path / "b.ksnap")
    waits = build_pod("waits", "3", uid="1")
    for file, size in ((before, "2"), (after, "4")):
        assert run("snapshot", "save", "-f", write(build_node("n1", size), waits), "-o", file, "-q").code == 0
    code, out, _ = run("wakes", "--between", before, after)
    assert (code, out.splitlines()[0]) == (0, "1 pod waited at both moments; none was missed")
    assert "Node n1 changed woke it; at the second moment it fits on n1" in out
    assert (
        build_document(run("wakes", "waits", "--between", before, after, "-o", "json").out, "WakesBetween")["changes"]
        == 1
    )
    assert run("wakes", "--between", before, before).out.startswith("1 pod waited at both moments; none was missed")


def test_given_pod_between_two_snapshots(run: Run, write: Write, tmp_path: Path) -> None:
    before, after = str(tmp_path / "a.ksnap"), str(tmp_path / "b.ksnap")
    placed = build_pod("runs", "1", nodeName="n1")
    for file, objects in (
        (before, (build_pod("waits", "3", uid="1"), placed)),
        (after, (placed, build_pod("new", "1"))),
    ):
        assert run("snapshot", "save", "-f", write(build_node("n1", "2"), *objects), "-o", file, "-q").code == 0
    code, out, _ = run("wakes", "waits", "--between", before, after)
    assert (code, out.splitlines()[0]) == (0, "No pod waited at both moments")
    assert "is gone at the second moment; nothing woke it, as far as both moments show" in out
    only = "only pending pods can be woken"
    assert run("wakes", "runs", "--between", before, after).err == (
        f'error: pod "default/runs" is not pending in {before} ({only})\n'
    )
    assert run("wakes", "new", "--between", before, after).err == f'error: {before}: pod "default/new" not found\n'


def test_snapshots_in_the_wrong_order(run: Run, tmp_path: Path) -> None:
    files = []
    for hour in (1, 2):
        read_at = f"2026-01-01T0{hour}:00:00+00:00"
        provenance = Provenance("https://example.com", read_at=read_at)
        files.append(str(tmp_path / f"{hour}.ksnap"))
        write_archive(Cluster(provenance=provenance), files[-1])
    assert run("wakes", "-A", "--between", *files).code == 0
    code, _, err = run("wakes", "-A", "--between", *reversed(files))
    assert code == 2
    assert err == (
        f"error: {files[1]} was read at 2026-01-01T02:00:00+00:00, but {files[0]} was read earlier, at "
        "2026-01-01T01:00:00+00:00 (specify the earlier snapshot first)\n"
    )


def test_gated_pod_is_not_flushed(run: Run, cluster: str) -> None:
    """No gating plugin registers for the event of the flush."""
    assert (
        run("wakes", "gated", "-f", cluster)
        .out.splitlines()[-1]
        .startswith("Until then, the scheduler does not try the pod")
    )
    assert (
        run("wakes", "waits", "-f", cluster).out.splitlines()[-1].startswith("Otherwise the pod is retried after five")
    )
    brief = " ".join(run("wakes", "waits", "-f", cluster, "--brief").out.split())
    assert "; otherwise the pod is retried after five minutes" in brief


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nothing"], 'pod "default/nothing" not found'),
        (["--event", "no-such-file"], "no-such-file"),
        (["--between", "a", "b", "--event", "e"], "--between already names both clusters"),
        (["node/n1"], "is a node"),
    ],
)
def test_wrong_usage(run: Run, cluster: str, arguments: list[str], problem: str) -> None:
    source = [] if "--between" in arguments else ["-f", cluster]
    code, out, err = run("wakes", *arguments, *source)
    assert (code, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_running_pod_cannot_be_woken(run: Run, write: Write) -> None:
    code, _, err = run("wakes", "p", "-f", write(build_node("n1"), build_pod("p", nodeName="n1")))
    assert (code, err) == (2, 'error: pod "default/p" is not pending (only pending pods can be woken)\n')


def test_uncalled_extenders_may_reject_a_fitting_pod(run: Run, cluster: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    extender = {"urlPrefix": "http://extender.example", "filterVerb": "filter"}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(json.dumps({**kind, "extenders": [extender]}))
    code, out, _ = run("wakes", "fits", "-f", cluster, "--config", str(config))
    assert (code, out.splitlines()[0][:25]) == (5, "default/fits fits now, so")
    assert "not certain: Extenders were not called" in " ".join(out.split())
    assert run("wakes", "waits", "-f", cluster, "--config", str(config)).code == 0
    file = write_events(tmp_path, build_node("new", "4"))
    assert run("wakes", "-A", "-f", cluster, "--config", str(config), "--event", file).code == 5


def test_unread_claims_make_the_answer_uncertain(run: Run, write: Write, tmp_path: Path) -> None:
    claimed = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    partly = write(build_node("n1", "2"), build_pod("waits", "3", volumes=claimed), whole=False)
    code, out, _ = run("wakes", "waits", "-f", partly)
    assert code == 5
    assert "not certain: the files may lack PersistentVolumeClaims" in " ".join(out.split())
    assert run("wakes", "waits", "-f", partly, "--event", write_events(tmp_path, build_node("new", "4"))).code == 5


def test_brief_form_names_the_changes(run: Run) -> None:
    """A number of kinds of changes does not say what wakes the pod."""
    out = run("wakes", "batch/nightly-export-5hx2p", "--demo", "--brief").out
    assert "the last of its scheduling gates is removed: example.com/budget-approval" in out
