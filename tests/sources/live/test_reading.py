"""Check the reading of a live cluster: requests, gaps, changes in between, and the scheduler's configuration."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import (
    Answer,
    Response,
    answer_path,
    build_status,
    get_recorded_error,
    read_recordings,
    replay_response,
    serve_api,
)
from live_fixtures import fixture_server_at, nobody  # noqa: F401 - fixtures
from unknown_kinds import check_not_another

import kschedctl
from kschedctl.api.kinds import KINDS
from kschedctl.cluster import FIELDS, Cluster, Gap
from kschedctl.commands.explain.report import Explanation
from kschedctl.errors import ClusterError
from kschedctl.reports.unknown import UnknownKind
from kschedctl.sources.live.connection import Connection
from kschedctl.sources.live.http import Server
from kschedctl.sources.live.reading import ReadingOptions, read_live_cluster

ServerAt = Callable[..., Server]
CLAIMS, CONFIG_MAPS = "/api/v1/persistentvolumeclaims", "/api/v1/namespaces/kube-system/configmaps"
SCHEDULER_PODS = "/api/v1/namespaces/kube-system/pods"
PENDING = json.loads(lzma.decompress((Path(__file__).parents[2] / "recordings" / "pending.json.xz").read_bytes()))
FORBIDDEN = build_status(403, 'persistentvolumeclaims is forbidden: User "nobody" cannot list', "Forbidden")
GATES = "StorageCapacityScoring=true,DRAExtendedResource=false,KubeletOnlyGate=true"
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    filter: {disabled: [{name: NodeResourcesFit}]}
"""
BOMB = "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9))
"""Nested aliases that expand to a billion values, ten at each level."""

UNVERIFIED = (
    "the server is v1.37.2: the rules of 1.37 were not compared with a real kube-scheduler: see kschedctl versions"
)


def read(server_at: ServerAt, *answers: Answer, **criteria: Any) -> tuple[Cluster, list[str]]:
    """Return the cluster, and the paths of the requests."""
    with serve_api(*answers, replay_response) as api:
        connection = Connection(server_at(api.url), "here", "lab")
        return read_live_cluster(connection, ReadingOptions(**criteria)).build_cluster(), api.paths(watch=True)


def test_live_reading_equals_reading_the_recorded_files(server_at: ServerAt) -> None:
    live, _ = read(server_at)
    files = kschedctl.Cluster.from_objects(PENDING["objects"], kube_version="1.36.2")
    files = replace(files, provenance=live.provenance)  # the time of reading decides which terminating pods are overdue
    for pod in PENDING["messages"]:
        assert kschedctl.explain(live, pod).to_dict() == kschedctl.explain(files, pod).to_dict(), pod


def is_group(path: str) -> bool:
    """Return whether a path lists the versions of a group, which is read if no known version exists."""
    return path.startswith("/apis/") and path.count("/") == 2


def test_only_kinds_that_plugins_read_are_requested(server_at: ServerAt) -> None:
    with serve_api(replay_response) as api:
        read_live_cluster(Connection(server_at(api.url), "here", "lab"))
    assert {method for method, _, _ in api.requests} == {"GET"}
    assert not {"/api/v1/secrets", "/api/v1/configmaps", "/api/v1/events"} & set(api.paths())
    plugins = "plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}"
    document = f"kind: KubeSchedulerConfiguration\nprofiles: [{{schedulerName: default-scheduler, {plugins}}}]"
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", **yaml.safe_load(document)}
    _, paths = read(server_at, configuration=configuration)
    lists = {path.rpartition("/")[2] for path in paths if "kube-" not in path and not is_group(path)}
    assert lists == {"version", "pods", "nodes", "namespaces", "priorityclasses", *OF_NEW_PODS}


def test_forbidden_kinds_become_gaps(server_at: ServerAt) -> None:
    within = answer_path("/api/v1/namespaces/lab/persistentvolumeclaims", FORBIDDEN)
    cluster, _ = read(server_at, answer_path(CLAIMS, FORBIDDEN), within)
    why = 'could not be read: persistentvolumeclaims is forbidden: User "nobody" cannot list'
    assert cluster.find_gap("PersistentVolumeClaim") == Gap(why)
    without_claim = kschedctl.explain(cluster, "lab/p01-cpu")
    assert (without_claim.unknown, without_claim.undecided) == ((), False)
    with_claim = kschedctl.explain(cluster, "lab/p16-pvc-missing")
    assert with_claim.undecided
    claims = UnknownKind("PersistentVolumeClaim", why, "verdict", named_objects=("lab/does-not-exist",))
    assert claims in with_claim.unknown
    assert "not found" not in (with_claim.message or "")


@pytest.fixture(scope="module")
def answers_of_the_complete_cluster(server_at: ServerAt) -> dict[str, Explanation]:
    """Explain each pod with everything read."""
    whole, _ = read(server_at)
    return {pod: kschedctl.explain(whole, pod) for pod in PENDING["messages"]}


OTHER_KINDS = [kind for kind in FIELDS if kind not in ("Node", "Pod")]
RECORDED_KINDS = {each["kind"] for each in PENDING["objects"]}
TURNS = 3
"""The step between pods that are explained without a kind that was not recorded. Each kind takes other pods."""


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_forbidden_kind_never_changes_a_definite_answer(
    server_at: ServerAt, answers_of_the_complete_cluster: dict[str, Explanation], kind: str
) -> None:
    def refused(path: str, query: dict[str, str]) -> Response | None:
        return FORBIDDEN if path.rpartition("/")[2] == KINDS[kind].plural else None

    part, _ = read(server_at, refused)
    pods = list(answers_of_the_complete_cluster)
    for pod in pods if kind in RECORDED_KINDS else pods[OTHER_KINDS.index(kind) % TURNS :: TURNS]:
        check_not_another(kschedctl.explain(part, pod), answers_of_the_complete_cluster[pod], kind)


def test_kinds_that_may_be_listed_only_in_the_namespace(server_at: ServerAt) -> None:
    own = Response(body=b'{"kind":"PersistentVolumeClaimList","metadata":{"resourceVersion":"1429"},"items":[]}')
    within = answer_path("/api/v1/namespaces/lab/persistentvolumeclaims", own)
    cluster, _ = read(server_at, answer_path(CLAIMS, FORBIDDEN), within)
    assert cluster.find_gap("PersistentVolumeClaim", "lab") is None
    assert cluster.find_gap("PersistentVolumeClaim").why.startswith("were read only in namespace lab: ")
    own_claim = kschedctl.explain(cluster, "lab/p16-pvc-missing")
    assert 'persistentvolumeclaim "' in (own_claim.message or "")
    assert not own_claim.undecided


def test_api_that_is_not_served(server_at: ServerAt) -> None:
    def no_devices(path: str, query: dict[str, str]) -> Response | None:
        return get_recorded_error("404-unknown-group") if path.startswith("/apis/resource.k8s.io/") else None

    cluster, _ = read(server_at, no_devices)
    not_served = {kind for kind, gap in cluster.gaps.items() if gap.why.startswith("are not served in resource.k8s.io")}
    assert not_served == {"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"}
    assert not kschedctl.explain(cluster, "lab/p01-cpu").unknown
    with_claim = kschedctl.explain(cluster, "lab/p26-dra-none-left")
    assert "ResourceClaim" in {unknown.kind for unknown in with_claim.unknown}


@pytest.mark.parametrize("kind", ["nodes", "pods"])
def test_missing_nodes_or_pods_are_an_error(kind: str, server_at: ServerAt) -> None:
    refused = get_recorded_error(f"403-nobody-list-{kind}")
    within = answer_path("/api/v1/namespaces/lab/pods", get_recorded_error("403-nobody-namespaced"))
    with pytest.raises(ClusterError, match=f"{kind} is forbidden.*see kschedctl help rights"):
        read(server_at, answer_path(f"/api/v1/{kind}", refused), within)


def test_lists_of_one_resource_version_are_not_watched(server_at: ServerAt) -> None:
    cluster, paths = read(server_at)
    assert cluster.provenance is not None
    assert set(cluster.provenance.resource_versions.values()) == {"1429"}
    assert paths.count("/api/v1/nodes") == 1


def build_event(kind: str, **metadata: Any) -> bytes:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "status": {"allocatable": {"cpu": "1"}}}
    return json.dumps({"type": kind, "object": node}).encode() + b"\n"


def answer_later_nodes() -> Answer:
    """Answer with the recorded nodes as of a moment before all other objects."""
    body = next(r["body"] for r in read_recordings() if r["request"] == "/api/v1/nodes")
    return answer_path(
        "/api/v1/nodes", Response(body=body.replace('"resourceVersion":"1429"', '"resourceVersion":"1400"').encode())
    )


def test_changes_between_lists_are_applied_and_reported(server_at: ServerAt) -> None:
    events = (
        build_event("ADDED", name="fresh", resourceVersion="1410"),
        build_event("MODIFIED", name="w1", resourceVersion="1411", labels={"new": "label"}),
        build_event("DELETED", name="w2", resourceVersion="1412"),
        build_event("BOOKMARK", resourceVersion="1420"),
    )
    watching = answer_path(
        "/api/v1/nodes", Response(chunks=(b"".join(events)[:100], b"".join(events)[100:])), watch=True
    )
    cluster, _ = read(server_at, answer_later_nodes(), watching)
    names = [node.metadata.name for node in cluster.nodes]
    assert "fresh" in names
    assert "w2" not in names
    assert names == sorted(names)
    assert next(n for n in cluster.nodes if n.metadata.name == "w1").metadata.labels == {"new": "label"}
    assert cluster.provenance is not None
    assert cluster.provenance.changed == {"Node": 3}
    assert cluster.provenance.resource_versions["Node"] == "1420"


@pytest.mark.parametrize(
    "fault",
    [
        build_status(403, "cannot watch"),
        Response(chunks=(build_event("ADDED", name="half", resourceVersion="1410"), b'{"type":"AD'), cut=1),
        Response(chunks=(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n',)),
        Response(chunks=(b"nonsense\n",)),
    ],
)
def test_unknown_changes_between_lists_are_reported(fault: Response, server_at: ServerAt) -> None:
    cluster, _ = read(server_at, answer_later_nodes(), answer_path("/api/v1/nodes", fault, watch=True))
    assert cluster.warnings == ("changes while the cluster was read are unknown for nodes",)
    assert "half" not in [node.metadata.name for node in cluster.nodes]


def respond_config_map(text: str) -> Response:
    return Response(body=json.dumps({"kind": "ConfigMap", "data": {"other": "x", "config.yaml": text}}).encode())


def respond_scheduler_pod(*command: str, config_map: str = "") -> Response:
    volume = {"name": "c"} | ({"configMap": {"name": config_map}} if config_map else {"hostPath": {"path": "/etc"}})
    container = {"command": ["kube-scheduler", *command], "volumeMounts": [{"name": "c", "mountPath": "/etc/sched"}]}
    pods = {"items": [{"spec": {"containers": [container], "volumes": [volume]}}]}
    return Response(body=json.dumps(pods).encode())


def test_version_leader_and_configuration_are_found(server_at: ServerAt) -> None:
    cluster, _ = read(server_at, answer_path(f"{CONFIG_MAPS}/scheduler-config", respond_config_map(CONFIGURATION)))
    assert cluster.kube_version == "1.36.2"
    assert cluster.provenance is not None
    assert cluster.provenance.leader == "vm_b4321c6d-30f1-4496-af8b-af73a44d19f2"
    assert cluster.provenance.configured_by == "ConfigMap kube-system/scheduler-config"
    assert kschedctl.explain(cluster, "lab/p01-cpu").to_dict()["verdict"] == "Schedulable"


def test_flags_of_the_running_scheduler_count(server_at: ServerAt) -> None:
    pods = respond_scheduler_pod("--config=/etc/sched/config.yaml", "--feature-gates", GATES, config_map="mine")
    mine = answer_path(f"{CONFIG_MAPS}/mine", respond_config_map(CONFIGURATION))
    cluster, _ = read(server_at, answer_path(SCHEDULER_PODS, pods), mine, feature_gates={"DRAExtendedResource": True})
    assert cluster.provenance is not None
    assert cluster.provenance.configured_by == "ConfigMap kube-system/mine"
    assert cluster.feature_gates == {"StorageCapacityScoring": True, "DRAExtendedResource": True}


def test_other_config_maps_are_ignored(server_at: ServerAt) -> None:
    broken = CONFIGURATION.replace("disabled: [{name: NodeResourcesFit}]", "enable: [{name: NodeName}]")
    cluster, _ = read(server_at, answer_path(f"{CONFIG_MAPS}/scheduler-config", respond_config_map(broken)))
    assert cluster.configuration is None
    assert cluster.warnings[0].startswith("ConfigMap kube-system/scheduler-config: ")


def test_unreadable_configuration_is_reported(server_at: ServerAt) -> None:
    pods = answer_path(SCHEDULER_PODS, respond_scheduler_pod("--config=/etc/sched/config.yaml"))
    stray = answer_path(f"{CONFIG_MAPS}/scheduler-config", respond_config_map(CONFIGURATION))
    cluster, _ = read(server_at, pods, stray)
    assert cluster.configuration is None
    assert cluster.warnings[0].startswith(
        "kube-scheduler runs with --config=/etc/sched/config.yaml, which cannot be read"
    )
    assert read(server_at, pods, configuration=yaml.safe_load(CONFIGURATION))[0].warnings == ()


def test_scheduler_without_configuration_has_the_defaults(server_at: ServerAt) -> None:
    stray = answer_path(f"{CONFIG_MAPS}/scheduler-config", respond_config_map(CONFIGURATION))
    cluster, paths = read(server_at, answer_path(SCHEDULER_PODS, respond_scheduler_pod()), stray)
    assert cluster.configuration is None
    assert not any("configmaps" in path for path in paths)


@pytest.mark.parametrize(
    ("minor", "replayed_as", "warned"),
    [("31+", "1.31", False), ("12", "1.30", True), ("37", "1.37", True), ("99", "1.37", True), ("?", "1.36", True)],
)
def test_nearest_version_is_replayed(minor: str, replayed_as: str, warned: bool, server_at: ServerAt) -> None:
    body = json.dumps({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}"}).encode()
    cluster, _ = read(server_at, answer_path("/version", Response(body=body)))
    assert cluster.kube_version == replayed_as
    assert bool(cluster.warnings) is warned
    assert read(server_at, answer_path("/version", Response(body=body)), kube_version="1.33")[0].kube_version == "1.33"


@pytest.mark.parametrize(
    ("server", "replayed_as"),
    [
        ("v1.34.1", "1.34.1"),
        ("v1.34.1-eks-3abc0de", "1.34.1"),
        ("v1.34.7+k3s1", "1.34.7"),
        ("v1.34.0-gke.1005000", "1.34.0"),
        ("v1.34", "1.34"),
        ("v1.33.4", "1.34"),
        ("built by hand", "1.34"),
        ("", "1.34"),
    ],
)
def test_patch_is_part_of_the_version(server: str, replayed_as: str, server_at: ServerAt) -> None:
    body = json.dumps({"major": "1", "minor": "34+", "gitVersion": server}).encode()
    cluster, _ = read(server_at, answer_path("/version", Response(body=body)))
    assert (cluster.kube_version, cluster.warnings) == (replayed_as, ())


@pytest.mark.parametrize(
    ("minor", "words"),
    [
        ("38", "the server is v1.38.2, newer than what can be replayed: the rules of 1.37 are used"),
        ("37", UNVERIFIED),
        ("29", "the server is v1.29.2, older than what can be replayed: the rules of 1.30 are used"),
    ],
)
def test_replayed_version_is_reported_for_other_servers(minor: str, words: str, server_at: ServerAt) -> None:
    body = json.dumps({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.2"}).encode()
    assert read(server_at, answer_path("/version", Response(body=body)))[0].warnings == (words,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CONFIGURATION + "profiles: []\n", "document 1, line 7: key 'profiles' already set in map"),
        (CONFIGURATION + "x: [" * 200, "document 1, line 7: nested more than 100 levels deep"),
        (CONFIGURATION + "\t- }{", "document 1, line 7: invalid YAML: found character that cannot start any token"),
        (CONFIGURATION + "#" * (1 << 20), "more than 1,048,576 characters"),
        (f"# KubeSchedulerConfiguration\na0: &a0 x\n{BOMB}", "excessive aliasing"),
    ],
)
def test_unusable_configuration_is_reported(text: str, words: str, server_at: ServerAt) -> None:
    cluster, _ = read(server_at, answer_path(f"{CONFIG_MAPS}/scheduler-config", respond_config_map(text)))
    assert cluster.configuration is None
    (warning,) = cluster.warnings
    assert warning.startswith("ConfigMap kube-system/scheduler-config: ")
    assert warning.endswith(", so kube-scheduler's default configuration is replayed unless --config is given")
    assert re.search(words, warning)


@pytest.mark.parametrize("name", ["../secrets/mine", "..", "a%2fb"])
def test_config_map_name_cannot_change_the_path(name: str, server_at: ServerAt) -> None:
    pods = answer_path(SCHEDULER_PODS, respond_scheduler_pod("--config=/etc/sched/config.yaml", config_map=name))
    cluster, paths = read(server_at, pods)
    assert cluster.warnings[0].startswith(f"ConfigMap kube-system/{name}: {name!r} is not an object name, so ")
    assert not any("secrets" in path for path in paths)


def test_version_with_too_many_digits_is_ignored(server_at: ServerAt) -> None:
    body = json.dumps({"major": "1", "minor": "9" * 5000, "gitVersion": "v"}).encode()
    assert read(server_at, answer_path("/version", Response(body=body)))[0].kube_version == "1.37"


QUIET = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}}]}
IMAGE = {"name": "i", "image": {"reference": "r"}}
TRAITS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "nothing": ({}, set()),
    "volumes of no account": (
        {"volumes": [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {}}, IMAGE]},
        set(),
    ),
    "a claim": ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, {"volumes"}),
    "an ephemeral claim": ({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}, {"volumes"}),
    "a disk": ({"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "d"}}]}, {"volumes"}),
    "an image on a disk": ({"volumes": [{**IMAGE, "rbd": {"image": "i", "monitors": []}}]}, {"volumes"}),
    "a device": ({"resourceClaims": [{"name": "d", "resourceClaimName": "c"}]}, {"devices"}),
    "an extended resource": (
        {"initContainers": [{"name": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        {"devices"},
    ),
    "a class's resource": (
        {"resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}},
        {"devices"},
    ),
    "a group": ({"schedulingGroup": {"podGroupName": "g"}}, {"groups"}),
}
GROUPS = {
    "volumes": {
        *("persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes", "csidrivers"),
        *("csistoragecapacities", "volumeattachments"),
    },
    "devices": {"resourceclaims", "deviceclasses", "resourceslices"},
    "groups": {"podgroups"},
}
OF_NEW_PODS = {"runtimeclasses", "resourceclaimtemplates"}
GANGS = {"GangScheduling": True, "GenericWorkload": True}


def respond_pod_list(*specs: dict[str, Any], version: str = "1429") -> Response:
    items = [{"metadata": {"name": f"p{n}", "namespace": "lab"}, "spec": spec} for n, spec in enumerate(specs)]
    body = {"kind": "PodList", "metadata": {"resourceVersion": version}, "items": items}
    return Response(body=json.dumps(body).encode())


def list_requested_lists(paths: list[str]) -> set[str]:
    return {path.rpartition("/")[2] for path in paths if not is_group(path)}


@pytest.mark.parametrize(("field", "is_read"), [("resourceClaimTemplateName", True), ("resourceClaimName", False)])
def test_claim_templates_are_read_if_a_pod_names_one(field: str, is_read: bool, server_at: ServerAt) -> None:
    pods = answer_path(
        "/api/v1/pods", respond_pod_list({**QUIET, "resourceClaims": [{"name": "device", field: "large"}]})
    )
    _, paths = read(server_at, pods, pods_alone=True)
    assert ("resourceclaimtemplates" in list_requested_lists(paths)) == is_read


@pytest.mark.parametrize("trait", TRAITS)
def test_kinds_that_no_pod_can_depend_on_are_not_read(trait: str, server_at: ServerAt) -> None:
    more, groups = TRAITS[trait]
    pods = answer_path("/api/v1/pods", respond_pod_list(QUIET, {**QUIET, **more, "nodeName": "w1"}))
    everything = list_requested_lists(read(server_at, pods, feature_gates=GANGS)[1])
    cluster, paths = read(server_at, pods, feature_gates=GANGS, pods_alone=True)
    left_out = set().union(*(GROUPS[name] for name in GROUPS if name not in groups))
    assert list_requested_lists(paths) == everything - left_out - OF_NEW_PODS
    assert left_out <= everything
    if "volumes" not in groups:
        assert cluster.gaps["StorageClass"].why == "were not read: no pod has a claim or a disk"


def test_unread_kinds_change_no_answer(server_at: ServerAt) -> None:
    """The recorded cluster is reduced to the pods that have neither claims nor devices."""
    items = json.loads(next(r["body"] for r in read_recordings() if r["request"] == "/api/v1/pods"))["items"]
    kept = [
        pod
        for pod in items
        if not re.search(r'ersistentVolumeClaim|esourceClaim|"nvidia|example\.com/', json.dumps(pod))
    ]
    body = {"kind": "PodList", "metadata": {"resourceVersion": "1429"}, "items": kept}
    pods = answer_path("/api/v1/pods", Response(body=json.dumps(body).encode()))
    everything, more = read(server_at, pods)
    needed, fewer = read(server_at, pods, pods_alone=True)
    assert (len(kept), len(fewer)) > (50, 0)
    assert len(fewer) <= len(more) - 10
    for pod in needed.unbound_pods():
        report = kschedctl.explain(needed, pod.key)
        assert not report.undecided
        assert report == kschedctl.explain(everything, pod.key), pod.key


def test_pod_created_meanwhile_has_all_that_it_needs(server_at: ServerAt) -> None:
    pod = {
        "metadata": {"name": "late", "namespace": "lab", "resourceVersion": "1410"},
        "spec": {**QUIET, **TRAITS["a claim"][0]},
    }
    came = json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n"
    watching = answer_path("/api/v1/pods", Response(chunks=(came,)), watch=True)
    pods = answer_path("/api/v1/pods", respond_pod_list(QUIET, version="1400"))
    cluster, paths = read(server_at, pods, watching, pods_alone=True)
    assert cluster.pod("lab", "late") is not None
    assert "PersistentVolumeClaim" not in cluster.gaps
    assert CLAIMS in paths


EVENTS, LEASES = "/api/v1/events", "/apis/coordination.k8s.io/v1/leases"
SYSTEM_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def build_list_response(kind: str, *items: dict[str, Any]) -> Response:
    """Build the response with a list of these items."""
    return Response(
        body=json.dumps({"kind": f"{kind}List", "metadata": {"resourceVersion": "9"}, "items": items}).encode()
    )


def test_events_and_leases_are_read_on_request(server_at: ServerAt) -> None:
    scheduled = {"metadata": {"name": "a.1", "namespace": "lab"}, "reason": "Scheduled", "eventTime": None}
    pulled = {"metadata": {"name": "a.2", "namespace": "lab"}, "reason": "Pulled"}
    lease = {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": {"holderIdentity": "cp1"}}
    answers = (
        answer_path(EVENTS, build_list_response("Event", scheduled, pulled)),
        answer_path(LEASES, build_list_response("Lease", lease)),
    )
    unasked, paths = read(server_at, *answers)
    assert not {EVENTS, LEASES} & set(paths)
    assert unasked.find_gap("Event") == Gap("were not read")
    asked, paths = read(server_at, *answers, also=("Event", "Lease"))
    assert [event.reason for event in asked.events] == ["Scheduled"]
    assert [lease.spec.holder_identity for lease in asked.leases] == ["cp1"]
    assert asked.find_gap("Event") is None
    assert asked.find_gap("Lease") is None
    assert (paths.count(EVENTS), paths.count(LEASES)) == (1, 1)  # listed, and not watched


def test_forbidden_events_are_a_gap(server_at: ServerAt) -> None:
    def refused(path: str, query: dict[str, str]) -> Response | None:
        return FORBIDDEN if path.endswith(("/events", "/leases")) and path != SYSTEM_LEASES else None

    own = {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}}
    cluster, _ = read(
        server_at, answer_path(SYSTEM_LEASES, build_list_response("Lease", own)), refused, also=("Event", "Lease")
    )
    assert cluster.find_gap("Event").why.startswith("could not be read: ")
    assert cluster.find_gap("Lease", "kube-system") is None
    assert cluster.find_gap("Lease").why.startswith("were read only in namespace kube-system: ")
    assert len(cluster.leases) == 1
    broken, _ = read(server_at, answer_path(EVENTS, Response(body=b"[]")), refused, also=("Event",))
    assert broken.find_gap("Event").why.startswith("could not be read: ")


def test_scheduler_instances_are_distinguished(server_at: ServerAt) -> None:
    one, two = (
        {
            "metadata": {"name": f"kube-scheduler-{name}"},
            "spec": {
                "containers": [
                    {
                        "image": f"registry.k8s.io:443/kube-scheduler:{version}",
                        "command": ["kube-scheduler", "--leader-elect=true", "--kubeconfig=/etc/secret.conf"],
                    }
                ]
            },
        }
        for name, version in (("a", "v1.36.2"), ("b", "v1.36.1"))
    )
    pods = Response(body=json.dumps({"kind": "PodList", "metadata": {}, "items": [one, two]}).encode())
    cluster, _ = read(server_at, answer_path(SCHEDULER_PODS, pods))
    assert cluster.provenance is not None
    assert [(each.name, each.version, each.flags) for each in cluster.provenance.instances] == [
        ("kube-scheduler-a", "v1.36.2", {"leader-elect": "true"}),
        ("kube-scheduler-b", "v1.36.1", {"leader-elect": "true"}),
    ]


def test_flags_of_the_api_server_are_read_on_request(server_at: ServerAt) -> None:
    container = {"image": "registry.k8s.io/kube-apiserver:v1.36.2", "command": ["kube-apiserver"]}
    flags = {"args": ["--enable-admission-plugins=PodNodeSelector", "--default-unreachable-toleration-seconds=60"]}
    pod = {"metadata": {"name": "kube-apiserver-a", "namespace": "kube-system"}, "spec": {"containers": []}}
    pod["spec"] = {"containers": [{"name": "kube-apiserver", **container, **flags}]}

    def answer(path: str, query: dict[str, str]) -> Response | None:
        wanted = path == SCHEDULER_PODS and query.get("labelSelector") == "component=kube-apiserver"
        return build_list_response("Pod", pod) if wanted else None

    cluster, _ = read(server_at, answer, also=("ResourceQuota",))
    assert cluster.api_server.enabled_optional_plugins == ("PodNodeSelector",)
    assert cluster.api_server.unreachable_seconds == 60
    assert cluster.api_server.where == "Pod kube-system/kube-apiserver-a"
    assert read(server_at, answer)[0].api_server.enabled_optional_plugins == ()
