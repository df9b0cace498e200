"""Check extenders on the command line: called on request, recorded, and replayed from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Write, build_node, build_pod
from extender_server import serve_extender

Json = dict[str, Any]
SCRIPT = {"filter": {"refuse": {"n1": "GPU memory is full"}}, "prioritize": {"scores": {"n2": 1, "n3": 9}}}


@pytest.fixture
def cluster(write: Write) -> str:
    return write(build_node("n1"), build_node("n2"), build_node("n3"), build_pod("web"), build_pod("other"))


def write_config(tmp_path: Path, url: str) -> str:
    file = tmp_path / "config.json"
    made = {"urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(json.dumps({**head, "extenders": [{**made, "nodeCacheCapable": True}]}))
    return str(file)


def test_recorded_answers_are_replayed(run: Run, cluster: str, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    with serve_extender(script=SCRIPT) as server:
        common = ["explain", "web", "-f", cluster, "--config", write_config(tmp_path, server.url)]
        unasked = run(*common)
        assert server.requests == []
        asked = run(*common, "--call-extenders", "--record-extenders", said)
    again = run(*common, "--extender-answers", said)
    assert (unasked.code, asked.code) == (5, 0)
    assert "not certain: Extenders were not called; pass --call-extenders" in " ".join(unasked.out.split())
    assert "Schedulable: on n3, the best of 2 feasible nodes" in asked.out
    assert "rejects n1: GPU memory is full" in asked.out
    assert again == asked


def test_missing_extenders_are_reported(run: Run, cluster: str) -> None:
    found = run("explain", "web", "-f", cluster, "--call-extenders")
    assert found.code == 0
    assert "note: no extender was called, because the configuration (--config) has none for these pods" in found.err


def test_extender_is_called_for_each_pending_pod(run: Run, cluster: str, tmp_path: Path) -> None:
    with serve_extender(script=SCRIPT) as server:
        found = run("explain", "-A", "-f", cluster, "--config", write_config(tmp_path, server.url), "--call-extenders")
    assert found.code == 0
    asked = [payload["Pod"]["metadata"]["name"] for path, _, payload in server.requests if path == "/filter"]
    assert sorted(asked) == ["other", "web"]


def test_unrecorded_answer_is_unknown(run: Run, cluster: str, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    with serve_extender(script=SCRIPT) as server:
        common = ["-f", cluster, "--config", write_config(tmp_path, server.url)]
        run("explain", "web", *common, "--call-extenders", "--record-extenders", said)
        found = run("explain", "other", *common, "--extender-answers", said)
    assert found.code == 5
    assert "does not answer" in " ".join(found.out.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--record-extenders", "said.json"], "--record-extenders needs --call-extenders"),
        (["--call-extenders", "--extender-answers", "said.json"], "cannot be combined"),
        (["--extender-answers", "/nowhere/said.json"], "/nowhere/said.json"),
        (["--call-extenders", "--record-extenders", "/nowhere/said.json"], "no such folder"),
    ],
    ids=["nothing to record", "two sources", "no answers", "no folder"],
)
def test_wrong_extender_options_are_errors(run: Run, cluster: str, options: list[str], words: str) -> None:
    found = run("explain", "web", "-f", cluster, *options)
    assert (found.code, found.out) == (2, "")
    assert words in found.err
    assert len(found.err.splitlines()) == 1


def test_texts_of_an_extender_cannot_control_the_terminal(run: Run, cluster: str, tmp_path: Path) -> None:
    refuse = dict.fromkeys(("n1", "n2", "n3"), "\x1b[2Jfull\nof it")
    with serve_extender(script={"filter": {"refuse": refuse}}) as server:
        found = run("explain", "web", "-f", cluster, "--config", write_config(tmp_path, server.url), "--call-extenders")
    assert found.code == 1
    assert "\x1b" not in found.out


def test_simulations_replay_recorded_answers(run: Run, cluster: str, write: Write, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    manifest = write({**build_pod("new"), "apiVersion": "v1"}, name="new.json", whole=False)
    with serve_extender(script=SCRIPT) as server:
        common = [
            "simulate",
            "-f",
            cluster,
            "-f",
            manifest,
            "--config",
            write_config(tmp_path, server.url),
            "--pending",
        ]
        asked = run(*common, "--call-extenders", "--record-extenders", said)
    again = run(*common, "--extender-answers", said)
    assert asked.code == 0
    assert "extenders answer for the real cluster" in " ".join(asked.out.split())
    assert again == asked
    assert run(*common).code == 5


def build_forward_command(write: Write, command: str) -> tuple[list[str], str]:
    """Return a command line that runs the scheduler forward, and the pod that it places."""
    zones = [build_node(name) for name in ("n1", "n2", "n3")]
    for number, each in enumerate(zones):
        each["metadata"]["labels"]["topology.kubernetes.io/zone"] = f"z{number}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    running = build_pod("web", uid="u", nodeName="n2")
    running["metadata"]["ownerReferences"] = [owner]
    files = ["-f", write(*zones, running)]
    new = write({**build_pod("new"), "apiVersion": "v1"}, name="new.json", whole=False)
    drained = '{"steps": [{"drain": {"nodes": ["n2"]}}]}'
    return {
        "drain": (["drain", "n2", *files], "web"),
        "failures": (["failures", "--zones", *files], "web"),
        "whatif": (["whatif", drained, *files], "web"),
        "capacity": (["capacity", *files, "-f", new, "--max", "2"], "new"),
        "simulate": (["simulate", *files, "-f", new], "new"),
    }[command]


@pytest.mark.parametrize("command", ["drain", "failures", "whatif", "capacity", "simulate"])
def test_commands_call_the_extender_or_say_that_they_did_not(
    run: Run, write: Write, tmp_path: Path, command: str
) -> None:
    said = str(tmp_path / "said.json")
    words, tried = build_forward_command(write, command)
    with serve_extender(script=SCRIPT) as server:
        common = [*words, "--config", write_config(tmp_path, server.url)]
        unasked = run(*common)
        assert server.requests == []
        asked = run(*common, "--call-extenders", "--record-extenders", said, "-o", "wide")
    assert unasked.code == 5
    first = " ".join(unasked.out.split("\n\n")[0].split()).lower()
    assert "not certain: extenders were not called; pass --call-extenders" in first
    assert asked.code == 0
    assert "extenders answer for the real cluster" in " ".join(asked.out.split())
    of_pods = {payload["Pod"]["metadata"]["name"] for path, _, payload in server.requests if path == "/filter"}
    assert {name.rpartition("~")[0] or name for name in of_pods} == {tried}
    assert run(*common, "--extender-answers", said, "-o", "wide") == asked
    assert run(*common, "--extender-answers", said, "-o", "json").out.count('"extended"') == 1


@pytest.mark.parametrize("command", ["drain", "failures", "whatif", "capacity"])
def test_no_pod_fits_if_an_extender_rejects_all_nodes(run: Run, write: Write, tmp_path: Path, command: str) -> None:
    refuse = dict.fromkeys(("n1", "n2", "n3"), "GPU memory is full")
    words, _ = build_forward_command(write, command)
    with serve_extender(script={"filter": {"refuse": refuse}}) as server:
        found = run(*words, "--config", write_config(tmp_path, server.url), "--call-extenders")
    assert found.code == 1
    assert "GPU memory is full" in " ".join(found.out.split())


def test_extender_is_called_again_for_a_changed_pod(run: Run, write: Write, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    cluster = write(build_node("n1"), build_pod("web", cpu="9"))
    with serve_extender(script={"filter": {"refuse": {}}}) as server:
        common = [
            "remedies",
            "web",
            "-f",
            cluster,
            "--without",
            "AddNode",
            "--config",
            write_config(tmp_path, server.url),
        ]
        unasked = run(*common)
        assert server.requests == []
        asked = run(*common, "--call-extenders", "--record-extenders", said)
    cpus = [
        sent["Pod"]["spec"]["containers"][0]["resources"].get("requests", {}).get("cpu") for *_, sent in server.requests
    ]
    assert "9" not in cpus  # it fits nowhere, so that the extender is asked about none but the changed ones
    assert "4" in cpus
    assert "better fixes may be missing" in " ".join(unasked.out.split())
    assert run(*common, "--extender-answers", said) == asked


def test_answer_about_a_changed_pod_is_unknown_if_it_was_not_recorded(run: Run, write: Write, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    cluster = write(build_node("n1"), build_pod("web", cpu="9"), build_pod("small"))
    with serve_extender(script={"filter": {"refuse": {"n1": "GPU memory is full"}}}) as server:
        common = ["-f", cluster, "--config", write_config(tmp_path, server.url)]
        run("explain", "-A", *common, "--call-extenders", "--record-extenders", said)
        asked = ["remedies", "web", *common, "--without", "AddNode", "-o", "json"]
        refused = json.loads(run(*asked, "--call-extenders").out)
    found = json.loads(run(*asked, "--extender-answers", said).out)
    assert (refused["remedies"], refused["unknown"]) == ([], [])
    assert found["remedies"] != []
    assert [(each["kind"], each["affects"]) for each in found["unknown"]] == [("Extender", "remedies")]
    assert "does not answer" in found["unknown"][0]["why"]


def test_extender_is_called_for_the_remedies_of_many_pods(run: Run, write: Write, tmp_path: Path) -> None:
    cluster = write(build_node("n1"), build_pod("web", cpu="9"), build_pod("db", cpu="8"))
    with serve_extender(script={"filter": {"refuse": {"n1": "GPU memory is full"}}}) as server:
        common = ["remedies", "-A", "-f", cluster, "--config", write_config(tmp_path, server.url)]
        asked = [*common, "--without", "AddNode", "-o", "json"]
        unasked = json.loads(run(*asked).out)
        refused = json.loads(run(*asked, "--call-extenders").out)
    assert unasked["cleared"] > 0
    assert [each["affects"] for each in unasked["unknown"]] == ["verdict"]
    assert (refused["cleared"], refused["unknown"]) == (0, [])


# -- what else of a pod is sent ---------------------------------------------------------------------------------------


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATIONS = {"gpu.example.com/mode": "mig", LAST_APPLIED: '{"spec": {"env": "TOP-SECRET"}}'}
VOLUMES = [{"name": "scratch", "hostPath": {"path": "/fast"}}]


def build_whole_pod(name: str, **metadata: Any) -> Json:
    """Build a pod with fields that no plugin reads."""
    made = build_pod(name)
    made["metadata"] |= {"annotations": ANNOTATIONS, **metadata}
    made["spec"]["volumes"] = VOLUMES
    made["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "TOP-SECRET"}]
    return made


def capture_sent_pod(run: Run, tmp_path: Path, *options: str) -> tuple[Json, str]:
    """Return the pod that the extender received, and everything that was printed and written."""
    said = tmp_path / "said.json"
    with serve_extender(script=SCRIPT) as server:
        common = [*options, "--config", write_config(tmp_path, server.url), "--call-extenders"]
        found = run(*common, "--record-extenders", str(said), "-o", "json")
    bodies = [payload for path, _, payload in server.requests if path == "/filter"]
    assert found.code in (0, 1), found.err
    return bodies[0]["Pod"], found.out + found.err + said.read_text()


def assert_whole(got: Json) -> None:
    assert got["metadata"]["annotations"] == {"gpu.example.com/mode": "mig"}
    assert got["spec"]["volumes"] == VOLUMES
    assert "TOP-SECRET" not in json.dumps(got)


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_extender_receives_annotations_and_volumes_of_a_pod(
    command: str, run: Run, write: Write, tmp_path: Path
) -> None:
    file = write(build_node("n1"), build_node("n2"), build_node("n3"), build_whole_pod("web"), build_pod("other"))
    got, printed = capture_sent_pod(run, tmp_path, command, "web", "-f", file)
    assert_whole(got)
    assert "mig" not in printed
    assert "scratch" not in printed


def test_extender_receives_annotations_and_volumes_of_a_manifest(
    run: Run, cluster: str, write: Write, tmp_path: Path
) -> None:
    template = build_whole_pod("ignored")
    document = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "annotations": {"of": "the workload"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "serviceName": "db",
            "template": {
                "metadata": {"labels": {"a": "b"}, "annotations": ANNOTATIONS},
                "spec": template["spec"],
            },
        },
    }
    manifest = tmp_path / "db.json"
    manifest.write_text(json.dumps(document))
    got, printed = capture_sent_pod(run, tmp_path, "explain", "sts/db", "-f", cluster, "-f", str(manifest))
    assert_whole(got)
    assert "scratch" not in printed


def test_answer_says_which_pod_fields_were_not_sent(run: Run, write: Write, tmp_path: Path) -> None:
    """For the pods of a summary, only the fields that plugins read are known."""
    file = write(build_node("n1"), build_node("n2"), build_node("n3"), build_whole_pod("web"))
    with serve_extender(script=SCRIPT) as server:
        common = ["-f", file, "--config", write_config(tmp_path, server.url), "--call-extenders"]
        named, summed = run("explain", "web", *common), run("explain", "-A", *common)
    assert "extenders got the pod without its environment" in " ".join(named.out.split())
    assert "no annotations, no environment" in " ".join(summed.out.split())
    first, last = (payload["Pod"] for path, _, payload in server.requests if path == "/filter")
    assert_whole(first)
    assert not last["metadata"].get("annotations")


def test_recording_of_a_pod_with_all_fields_is_replayed(run: Run, write: Write, tmp_path: Path) -> None:
    said = str(tmp_path / "said.json")
    file = write(build_node("n1"), build_node("n2"), build_node("n3"), build_whole_pod("web"))
    with serve_extender(script=SCRIPT) as server:
        common = ["explain", "web", "-f", file, "--config", write_config(tmp_path, server.url)]
        asked = run(*common, "--call-extenders", "--record-extenders", said)
    again = run(*common, "--extender-answers", said)
    assert (asked.code, again.code) == (0, 0)
