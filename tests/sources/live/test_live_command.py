"""Check the command line on a live cluster: default source, namespace, messages, --watch, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from api_server import (
    Answer,
    Response,
    answer_path,
    build_status,
    get_recorded_error,
    replay_response,
    serve_api,
    write_kubeconfig,
)
from command_line import shorten_searches
from live_fixtures import nobody  # noqa: F401 - fixtures

import kschedctl
from kschedctl.cli.main import main
from kschedctl.sources.archive_file import write_archive
from kschedctl.sources.live import follow as live_follow
from kschedctl.sources.live import http as live_http

Run = Callable[..., tuple[int, str, str]]
CLAIMS = "/api/v1/persistentvolumeclaims"


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command line against a server with these answers, and then the recorded ones."""

    def run(*arguments: str, answers: tuple[Answer, ...] = ()) -> tuple[int, str, str]:
        with serve_api(*answers, replay_response) as api:
            monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config"))
            code = main(arguments)
            assert {method for method, _, _ in api.requests} <= {"GET"}
        return code, *capsys.readouterr()

    return run


def test_live_cluster_is_the_default(run: Run) -> None:
    code, out, err = run("explain", "p01-cpu", "-o", "json")
    assert (code, err) == (1, "")
    assert json.loads(out)["pod"] == "lab/p01-cpu"
    code, out, _ = run("explain")
    assert out.startswith("30 pods pending in namespace lab")
    assert "Incomplete: Deployments and DaemonSets are not served" in out  # of what could not be created
    assert run("explain", "shop/nope")[2].startswith('error: pod "shop/nope" not found')


def test_gaps_are_reported_in_every_output_format(run: Run) -> None:
    refused = build_status(403, "persistentvolumeclaims is forbidden")
    answers = (answer_path(CLAIMS, refused), answer_path("/api/v1/namespaces/lab/persistentvolumeclaims", refused))
    for arguments, expected in ((["lab/p16-pvc-missing"], 5), (["-A"], 1)):  # some of all are refused for certain
        for form in ("table", "wide", "json", "yaml", "markdown"):
            code, out, _ = run("explain", *arguments, "-o", form, answers=answers)
            assert code == expected
            assert "could not be read: persistentvolumeclaims is forbidden" in " ".join(out.split()), form


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (get_recorded_error("401-bad-token"), "does not accept these credentials: Unauthorized"),
        (get_recorded_error("403-nobody-list-nodes"), 'User "nobody" cannot list'),
        (Response(302), "redirects"),
        (Response(body=b"<html>"), "unexpected response"),
    ],
)
def test_unreachable_cluster_has_exit_code_3(
    answer: Response, words: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_http, "LONGEST_WAIT", 0.01)
    code, out, err = run("explain", answers=(lambda *_: answer,))
    assert (code, out) == (3, "")
    assert words in err
    assert err.startswith("error: http://127.0.0.1:")
    assert err.count("\n") == 1


def test_files_are_read_without_a_cluster(run: Run, tmp_path: Path) -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}, "spec": {"containers": []}}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
    (tmp_path / "pod.json").write_text(json.dumps(pod) + json.dumps(node))
    assert (
        "web"
        in run("explain", "web", "-f", str(tmp_path / "pod.json"), answers=(lambda *_: build_status(500, "no"),))[1]
    )
    assert run("explain", "--watch", "--demo")[2] == "error: --watch: only a live cluster can be watched\n"


def build_event(kind: str, version: int, **spec: Any) -> bytes:
    metadata = {"name": "p01-cpu", "namespace": "lab", "uid": "1", "resourceVersion": str(version)}
    containers = [{"name": "c", "resources": {"requests": {"cpu": spec.pop("cpu", "6")}}}]
    pod = {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
        "status": {"phase": "Pending"},
    }
    return json.dumps({"type": kind, "object": pod}).encode() + b"\n"


def test_watch_answers_again_when_the_verdict_changes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unchanged pod prints nothing new. It fits once it requests less, and the watch ends once it is bound."""
    monkeypatch.setattr(live_follow, "SETTLE_SECONDS", 0.05)
    chunks = (
        build_event("MODIFIED", 1500),
        build_event("MODIFIED", 1501, cpu="1m"),
        build_event("MODIFIED", 1502, nodeName="w1"),
    )
    watching = answer_path("/api/v1/pods", Response(chunks=chunks, pause=4.0), Response(hang=1, chunks=()), watch=True)
    code, out, err = run("explain", "p01-cpu", "--watch", "-o", "json", answers=(watching,))
    assert (code, err) == (0, "")
    documents, decoder = [], json.JSONDecoder()
    while out.strip():
        document, end = decoder.raw_decode(out.lstrip())
        documents.append(document)
        out = out.lstrip()[end:]
    assert [document["verdict"] for document in documents] == ["Unschedulable", "Schedulable", "Bound"]


def test_library_reads_a_live_cluster(tmp_path: Path) -> None:
    with serve_api(replay_response) as api:
        config = write_kubeconfig(api.url, tmp_path / "config")
        cluster = kschedctl.Cluster.from_live(kubeconfig=config)
        older = kschedctl.Cluster.from_live(kubeconfig=config, kube_version="v1.34.1")
    assert (cluster.kube_version, older.kube_version) == ("1.36.2", "v1.34.1")
    assert kschedctl.explain(cluster, "lab/p01-cpu").verdict == "Unschedulable"
    write_archive(cluster, str(tmp_path / "s"))
    saved = kschedctl.Cluster.from_snapshot(tmp_path / "s")
    assert kschedctl.explain(saved, "lab/p01-cpu") == kschedctl.explain(cluster, "lab/p01-cpu")


def test_manifest_gets_the_namespace_of_the_context(run: Run, tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    file = tmp_path / "deployment.json"
    file.write_text(
        json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec})
    )
    code, out, err = run("explain", "-f", str(file), "-o", "json")
    document = json.loads(out)
    assert (code, err) == (5, "")  # what might refuse the pods was not recorded
    assert (document["pod"], document["verdict"], len(document["nodeOrder"])) == ("lab/x-new-0", "Schedulable", 12)
    assert [each["kind"] for each in document["unknown"]] == ["ResourceQuota", "LimitRange", "ServiceAccount"]
    said = " ".join(run("explain", "-f", str(file))[1].split())
    assert said.startswith("lab/x-new-0 Schedulable, but not certain: ResourceQuotas, LimitRanges and ServiceAccounts ")


def test_configuration_of_the_live_scheduler_is_shown(run: Run) -> None:
    code, out, _ = run("config", "view", "--live", "-o", "json")
    document = json.loads(out)
    assert (code, document["kubeVersion"]) == (0, "1.36.2")
    assert document["configuredBy"]
    assert [profile["schedulerName"] for profile in document["profiles"]]
    code, out, _ = run("config", "view", "--live")
    assert out.startswith("kube-scheduler 1.36.2, configured by ")


def test_version_of_the_live_cluster(run: Run) -> None:
    code, out, err = run("version", "-o", "json")
    cluster = json.loads(out)["cluster"]
    assert (code, err) == (0, "")
    assert (cluster["kubeVersion"], cluster["serverVersion"]) == ("1.36.2", "v1.36.2")


@pytest.mark.parametrize(
    ("arguments", "all_of_it"),
    [
        (["explain", "quiet"], False),
        (["explain", "-A"], False),
        (["explain", "pod/quiet", "-o", "json"], False),
        (["explain", "deploy/quiet"], True),
        (["explain", "-f", "pod.json"], True),
        (["drain", "w1"], True),
        (["snapshot", "save", "-o", "saved"], True),
    ],
)
def test_only_answers_about_pods_of_the_cluster_leave_lists_out(
    arguments: list[str], all_of_it: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pod = {"metadata": {"name": "quiet", "namespace": "lab"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    (tmp_path / "pod.json").write_text(json.dumps({"kind": "Pod", "apiVersion": "v1", **pod}))
    body = {"kind": "PodList", "metadata": {"resourceVersion": "1429"}, "items": [pod]}
    asked: list[str] = []

    def note(path: str, query: dict[str, str]) -> Response | None:
        asked.append(path)
        return None

    run(*arguments, answers=(note, answer_path("/api/v1/pods", Response(body=json.dumps(body).encode()))))
    assert (CLAIMS in asked) is all_of_it
    assert "/api/v1/services" in asked


@pytest.mark.parametrize("command", ["explain", "remedies", "wakes", "sampling"])
def test_namespace_of_the_context_restricts_no_names(command: str, run: Run, tmp_path: Path) -> None:
    """Only -n requires that every named object is in its namespace."""
    with shorten_searches():
        code, _, err = run(command, "shop/p08-antiaffinity")
    assert (code in (0, 1, 5), err) == (True, "")
    spec = {"containers": [{"name": "c", "image": "c"}]}
    file = tmp_path / "pod.json"
    metadata = {"name": "x", "namespace": "shop"}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    with shorten_searches():
        code, _, err = run(command, "-f", str(file))
    assert (code in (0, 1, 5), err) == (True, "")
    assert "is not in namespace" in run(command, "shop/p08-antiaffinity", "-n", "lab")[2]


@pytest.mark.parametrize("command", ["remedies", "wakes"])
def test_scheduler_name_may_differ_from_the_pods(command: str, run: Run) -> None:
    """The commands accept --scheduler-name for pods of the cluster. No scheduler has that name."""
    _, out, err = run(command, "lab/p01-cpu", "--scheduler-name", "volcano")
    assert "volcano" in out + err
