"""Snapshots give back the cluster that they were made of, whole or not at all."""

from __future__ import annotations

import json
import lzma
import os
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden_cases import SETTINGS, family_lines

import kschedctl
from kschedctl import demo
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS, Cluster, Picture
from kschedctl.errors import InputError
from kschedctl.sources.read import read
from kschedctl.sources.snapshot_file import read_header, read_snapshot, write_snapshot

RECORDED = json.loads(lzma.decompress((Path(__file__).parents[2] / "recordings" / "pending.json.xz").read_bytes()))


def demo_cluster() -> Cluster:
    return Cluster.of(read([str(file) for file in demo.files()]).objects)


def recorded_cluster() -> Cluster:
    return kschedctl.Cluster.from_objects(RECORDED["objects"])


def explained(cluster: Cluster) -> dict[str, Any]:
    return {pod.key: kschedctl.explain(cluster, pod.key).to_dict() for pod in cluster.unbound_pods()}


def through_a_file(cluster: Cluster, folder: Path) -> Cluster:
    path = str(folder / "snapshot")
    write_snapshot(cluster, path)
    return read_snapshot(path)


@pytest.mark.parametrize("make", [demo_cluster, recorded_cluster])
def test_the_answers_are_the_same(make: Any, tmp_path: Path) -> None:
    cluster = make()
    again = through_a_file(cluster, tmp_path)
    assert explained(again) == explained(cluster)
    for kind, field in FIELDS.items():
        if kind not in ("Pod", "Node"):
            assert len(getattr(again, field)) == len(getattr(cluster, field)), kind


@pytest.mark.parametrize("family", ["volumes", "dra", "preemption", "resize", "mixed"])
def test_golden_clusters_survive(family: str, tmp_path: Path) -> None:
    """Every fifth cluster that kube-scheduler itself was asked about."""
    for case in map(json.loads, family_lines(family)[::5]):
        settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
        cluster = kschedctl.Cluster.from_objects(case["objects"], **settings)
        again = through_a_file(cluster, tmp_path)
        try:
            expected = kschedctl.explain(cluster, case["pod"]).to_dict()
        except kschedctl.KschedctlError as error:
            with pytest.raises(type(error)):
                kschedctl.explain(again, case["pod"])
            continue
        assert kschedctl.explain(again, case["pod"]).to_dict() == expected, case["id"]


def test_settings_survive(tmp_path: Path) -> None:
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    settings: dict[str, Any] = {
        "configuration": configuration,
        "feature_gates": {"StorageCapacityScoring": True},
        "kube_version": "1.33",
        "admit": True,
        "unread": {"ResourceClaim": "forbidden"},
        "partly_read": {"Service": "one namespace"},
        "picture": Picture("https://api.example.com", resource_versions={"Pod": "7"}, changed={"Node": 2}),
    }
    again = through_a_file(Cluster(**settings), tmp_path)
    assert {name: getattr(again, name) for name in settings} == settings
    assert len(again.pods) == 0


def unpacked(path: Path) -> bytes:
    """Header and all sections."""
    data = path.read_bytes()
    head, _, rest = data.partition(b"\n")
    parts = [head]
    for section in json.loads(head)["sections"]:
        parts.append(zlib.decompress(rest[: section["length"]]))
        rest = rest[section["length"] :]
    return b"\n".join(parts)


def test_nothing_is_kept_that_scheduling_does_not_read(tmp_path: Path) -> None:
    secret = {"name": "PASSWORD", "value": "hunter2"}
    container = {"name": "c", "image": "web:1", "args": ["--token=hunter2"], "command": ["hunter2"], "env": [secret]}
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "hunter2",
        "volume.kubernetes.io/selected-node": "n1",
    }
    objects = [
        {"kind": "Pod", "metadata": {"name": "web", "annotations": annotations}, "spec": {"containers": [container]}},
        {
            "kind": "Node",
            "metadata": {"name": "n1", "annotations": annotations},
            "status": {"nodeInfo": {"x": "hunter2"}},
        },
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "annotations": annotations}},
        {"kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "hunter2"}},
        {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"password": "hunter2"}},
    ]
    cluster = kschedctl.Cluster.from_objects(objects)
    write_snapshot(cluster, str(tmp_path / "s"))
    everything = unpacked(tmp_path / "s")
    assert b"hunter2" not in everything
    (claim,) = read_snapshot(str(tmp_path / "s")).persistent_volume_claims
    assert claim.metadata.annotations == {"volume.kubernetes.io/selected-node": "n1"}


def test_the_first_line_says_what_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    written = write_snapshot(demo_cluster(), path)
    first = json.loads(Path(path).read_bytes().partition(b"\n")[0])
    assert (first["apiVersion"], first["kind"], first["format"]) == ("kschedctl.dev/v1", "Snapshot", 1)
    assert read_header(path) == written


@pytest.mark.parametrize("keep", [0, 1, 40, 0.3, 0.6, 0.99, -1])
def test_a_file_that_is_cut_short_is_told(keep: float, tmp_path: Path) -> None:
    path = tmp_path / "s"
    write_snapshot(demo_cluster(), str(path))
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(InputError) as error:
        read_snapshot(str(path))
    assert str(error.value).startswith(str(path))


def test_a_damaged_byte_is_told_or_harmless(tmp_path: Path) -> None:
    """Each section has its checksum; only the header's own values can change unnoticed."""
    path = tmp_path / "s"
    write_snapshot(demo_cluster(), str(path))
    data = path.read_bytes()
    start = data.index(b"\n") + 1
    for position in range(start, len(data), 97):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="damaged"):
            read_snapshot(str(path))


def section(length: int, size: int) -> bytes:
    return b'{"kind":"Pod","objects":1,"length":%d,"size":%d}' % (length, size)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no snapshot"),
        (b'{"kind": "List"}\n', "no snapshot"),
        (b"kind: Pod\n", "no snapshot"),
        (
            b'{"kind": "Snapshot", "format": 9, "writtenBy": "kschedctl 9"}\n',
            "a snapshot of format 9, written by kschedctl 9",
        ),
        (
            b'{"kind":"Snapshot","sections":[{"kind":"Pod","objects":1,"length":2,"size":99999999999}]}\nxx',
            "impossible size",
        ),
        (b'{"kind":"Snapshot","sections":[{"kind":"Pod","objects":1,"length":-2,"size":9}]}\nxx', "cut short"),
    ],
)
def test_other_files_are_told_from_snapshots(text: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(text)
    with pytest.raises(InputError, match=words):
        read_snapshot(str(tmp_path / "s"))


def test_kinds_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write_snapshot(demo_cluster(), str(path))
    path.write_bytes(path.read_bytes().replace(b'"kind":"PriorityClass"', b'"kind":"PriorityThing"', 1))
    assert read_snapshot(str(path)).priority_classes == ()


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    path.write_text("before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="cannot be written: no space left on device"):
        write_snapshot(demo_cluster(), str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["s"]
    assert path.read_text() == "before"
    with pytest.raises(InputError, match="cannot be written"):
        write_snapshot(demo_cluster(), str(tmp_path / "no" / "such" / "folder"))


def test_a_table_is_stored_as_it_is(tmp_path: Path) -> None:
    cluster = recorded_cluster()
    table, again = PodTable.of(cluster.pods), through_a_file(cluster, tmp_path).pods
    assert isinstance(again, PodTable)
    assert msgspec.msgpack.encode(list(again)) == msgspec.msgpack.encode(list(table))
