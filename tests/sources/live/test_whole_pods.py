"""Check that extenders get complete pods of a live cluster, each read once more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from api_server import Response, answer_path, build_status, replay_response, serve_api, write_kubeconfig
from live_fixtures import nobody  # noqa: F401 - fixtures

from kschedctl.cli.extender_options import collect_pod_extras
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import Source
from kschedctl.cli.source import load_cluster
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.extender_recording import PodExtras, Recorder, WholePods

PATH = "/api/v1/namespaces/lab/pods/p01-cpu"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WHOLE = {
    "metadata": {"name": "p01-cpu", "annotations": {"a": "b", LAST_APPLIED: "{}"}},
    "spec": {"containers": [{"env": [{"name": "TOKEN", "value": "secret"}]}], "volumes": [{"name": "v"}]},
}


def fail_if_called(*_: Any) -> tuple[int, Any]:
    raise AssertionError("nobody is asked")


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (Response(body=json.dumps(WHOLE).encode()), {"lab/p01-cpu": PodExtras({"a": "b"}, ({"name": "v"},))}),
        (build_status(403, "pods is forbidden"), {}),
        (build_status(404, "not found"), {}),
    ],
    ids=["read", "refused", "gone"],
)
@pytest.mark.parametrize("extenders", [1, 0])
def test_complete_pods_are_read_only_for_extenders(
    answer: Response, known: dict[str, Any], extenders: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read again if the configuration has no extender."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**head, "extenders": [{"urlPrefix": "http://x", "filterVerb": "f"}] * extenders}))
    with serve_api(answer_path(PATH, answer), replay_response) as api:
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "kubeconfig"))
        source, recorder = Source(config=str(config)), Recorder(WholePods(fail_if_called))
        cluster = load_cluster(source)
        pod = cluster.pod("lab", "p01-cpu")
        assert pod is not None
        collect_pod_extras(recorder, [TargetPod(Scheduler(cluster), pod)], Inquiry(cluster), source)
        assert (PATH in api.paths()) is bool(extenders)
    assert recorder.full_pods == (known if extenders else {})
