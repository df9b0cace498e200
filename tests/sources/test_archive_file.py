"""Check that snapshots restore the cluster completely or not at all."""

from __future__ import annotations

import io
import json
import lzma
import os
import threading
import tracemalloc
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden_cases import SETTINGS, iter_family_lines

import kschedctl
from kschedctl import demo
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS, Cluster, Gap, Provenance
from kschedctl.errors import InputError
from kschedctl.sources.archive_file import MAX_FILE_SIZE, read_archive, read_header, write_archive
from kschedctl.sources.read import read_paths

NOW = "2026-06-01T12:00:00Z"

RECORDED = json.loads(lzma.decompress((Path(__file__).parents[1] / "recordings" / "pending.json.xz").read_bytes()))

UNVERIFIED = (
    "the server is v1.37.2: the rules of 1.37 were not compared with a real kube-scheduler: see kschedctl versions"
)


def read_demo_cluster() -> Cluster:
    return Cluster.of(read_paths([str(file) for file in demo.list_files()]).objects)


def build_recorded_cluster() -> Cluster:
    return kschedctl.Cluster.from_objects(RECORDED["objects"])


def explain_pending(cluster: Cluster) -> dict[str, Any]:
    """Explain each unbound pod."""
    return {pod.key: kschedctl.explain(cluster, pod.key).to_dict() for pod in cluster.unbound_pods()}


def write_and_read(cluster: Cluster, folder: Path) -> Cluster:
    path = str(folder / "snapshot")
    write_archive(cluster, path)
    return read_archive(path)


@pytest.mark.parametrize("make", [read_demo_cluster, build_recorded_cluster])
def test_answers_equal_those_of_the_original(make: Any, tmp_path: Path) -> None:
    cluster = make()
    again = write_and_read(cluster, tmp_path)
    assert explain_pending(again) == explain_pending(cluster)
    for kind, field in FIELDS.items():
        if kind not in ("Pod", "Node"):
            assert len(getattr(again, field)) == len(getattr(cluster, field)), kind


def test_host_paths_are_replaced_but_stay_distinct(tmp_path: Path) -> None:
    """This holds for pods and templates, and a snapshot made from a snapshot is the same."""

    def volumes(*paths: str) -> dict[str, Any]:
        return {"volumes": [{"name": f"v{i}", "hostPath": {"path": path}} for i, path in enumerate(paths)]}

    def pod(name: str, *paths: str) -> dict[str, Any]:
        return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c"}], **volumes(*paths)}}

    template = {"spec": {"containers": [{"name": "c"}], **volumes("/var/secret-a")}}
    stateful_set = {"kind": "StatefulSet", "metadata": {"name": "s", "uid": "1"}, "spec": {"template": template}}
    objects = [pod("a", "/var/secret-a", "/var/secret-b"), pod("b", "/var/secret-a"), stateful_set]
    cluster = kschedctl.Cluster.from_objects(objects)
    once = write_and_read(cluster, tmp_path)
    assert b"secret" not in (tmp_path / "snapshot").read_bytes()
    again = write_and_read(once, tmp_path)
    for read_again in (once, again):
        (first, second), (shared,) = ([v.host_path.path for v in pod.spec.volumes] for pod in read_again.pods)
        (owned,) = read_again.stateful_sets[0].spec.template.spec.volumes
        assert first == shared == owned.host_path.path != second
        assert "secret" not in first + second
    assert [pod.spec.volumes for pod in once.pods] == [pod.spec.volumes for pod in again.pods]


@pytest.mark.parametrize("family", ["volumes", "dra", "preemption", "resize", "mixed"])
def test_golden_clusters_are_restored(family: str, tmp_path: Path) -> None:
    """Every fifth cluster that kube-scheduler was asked about is saved and restored."""
    for case in map(json.loads, iter_family_lines(family)[::5]):
        settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
        cluster = kschedctl.Cluster.from_objects(case["objects"], **settings)
        again = write_and_read(cluster, tmp_path)
        try:
            expected = kschedctl.explain(cluster, case["pod"], now=NOW).to_dict()
        except kschedctl.KschedctlError as error:
            with pytest.raises(type(error)):
                kschedctl.explain(again, case["pod"], now=NOW)
            continue
        assert kschedctl.explain(again, case["pod"], now=NOW).to_dict() == expected, case["id"]


def test_settings_are_restored(tmp_path: Path) -> None:
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    settings: dict[str, Any] = {
        "configuration": configuration,
        "feature_gates": {"StorageCapacityScoring": True},
        "kube_version": "1.33",
        "admit": True,
        "gaps": {"ResourceClaim": Gap("could not be read: forbidden"), "Service": Gap("of one namespace", "shop")},
        "provenance": Provenance("https://api.example.com", resource_versions={"Pod": "7"}, changed={"Node": 2}),
    }
    again = write_and_read(Cluster(**settings), tmp_path)
    assert {name: getattr(again, name) for name in settings} == settings
    assert len(again.pods) == 0


def unpack_sections(path: Path) -> bytes:
    """Return the header and all sections."""
    with zipfile.ZipFile(path) as file:
        return b"\n".join(map(file.read, file.namelist()))


def test_only_fields_that_scheduling_reads_are_stored(tmp_path: Path) -> None:
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
    write_archive(cluster, str(tmp_path / "s"))
    everything = unpack_sections(tmp_path / "s")
    assert b"hunter2" not in everything
    (claim,) = read_archive(str(tmp_path / "s")).persistent_volume_claims
    assert claim.metadata.annotations == {"volume.kubernetes.io/selected-node": "n1"}


def test_archive_is_an_ordinary_zip_file(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    written = write_archive(read_demo_cluster(), path)
    with zipfile.ZipFile(path) as file:
        first = json.loads(file.read("snapshot.json"))
        assert (first["apiVersion"], first["kind"], first["format"]) == ("kschedctl.dev/v1", "Snapshot", 2)
        assert file.namelist()[1:] == [f"{kind}.msgpack" for kind in first["objects"]]
        assert file.testzip() is None
    assert read_header(path) == written


def zip_members(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def build_header(**fields: Any) -> bytes:
    return json.dumps({"kind": "Snapshot", "format": 2, "writtenBy": "kschedctl 9", **fields}).encode()


FIRST_FORMAT = b'{"apiVersion":"kschedctl.dev/v1","kind":"Snapshot","format":1,"writtenBy":"kschedctl 0.1.0"}\nxx'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not a snapshot"),
        (b'{"kind": "List"}\n', "not a snapshot"),
        (b"kind: Pod\n", "not a snapshot"),
        (b"PK\x03\x04", "damaged snapshot: File is not a zip file"),
        (FIRST_FORMAT, "a snapshot in format 1, which is not supported \\(save it again\\)"),
    ],
)
def test_other_files_are_distinguished_from_snapshots(text: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(text)
    with pytest.raises(InputError, match=words):
        read_archive(str(tmp_path / "s"))


POD_HEADER = build_header(objects={"Pod": 1})
OTHER_ARCHIVES: dict[str, tuple[dict[str, bytes], str]] = {
    "another zip file": ({"word/document.xml": b"<a/>"}, "not a snapshot"),
    "another document": ({"snapshot.json": b'{"kind": "List"}'}, "not a snapshot"),
    "of a later version": (
        {"snapshot.json": build_header(format=9, gaps=[], objects=7)},
        r"a snapshot in format 9, written by kschedctl 9, which is not supported \(this kschedctl reads format 2\)",
    ),
    "without format": (
        {"snapshot.json": b'{"kind": "Snapshot"}'},
        "a snapshot in format 0, written by an unknown program, which is not supported",
    ),
    "a header that is none": ({"snapshot.json": build_header(objects=[1])}, "damaged snapshot: Expected `object`"),
    "a header nested too deeply": ({"snapshot.json": b'{"x":' + b"[" * 9999}, "damaged snapshot: .*recursion"),
    "a header without end": ({"snapshot.json": b" " * (17 << 20)}, "its part snapshot.json is larger than 16 MiB"),
    "a kind that is not in it": ({"snapshot.json": POD_HEADER}, "damaged snapshot: .*Pod.msgpack"),
    "objects of another number": (
        {"snapshot.json": build_header(objects={"Service": 2}), "Service.msgpack": b"\x91\x80"},
        "damaged snapshot: 1 objects of kind Service instead of 2",
    ),
}


@pytest.mark.parametrize("case", OTHER_ARCHIVES)
def test_invalid_snapshots_are_errors(case: str, tmp_path: Path) -> None:
    members, words = OTHER_ARCHIVES[case]
    with pytest.raises(InputError, match=words) as error:
        read_archive(str(zip_members(tmp_path / "s", members)))
    assert str(error.value).startswith(f"{tmp_path}/s: ")


def test_kinds_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    members = {"snapshot.json": build_header(objects={"PriorityThing": 1}), "PriorityThing.msgpack": b"\x91\x80"}
    assert read_archive(str(zip_members(tmp_path / "s", members))).priority_classes == ()


BOMBS: dict[str, tuple[bytes, bytes, int]] = {
    "zeros": (b"", b"\0", 120 << 20),
    "many empty objects": (b"\xdd" + (7 << 20).to_bytes(4, "big"), b"\x80", 7 << 20),
    "many empty objects in one": (
        b"\x91\x81\xa8template\x81\xa4spec\x81\xaacontainers\xdd" + (7 << 20).to_bytes(4, "big"),
        b"\x80",
        7 << 20,
    ),
    "many texts": (b"\xdd" + (20 << 20).to_bytes(4, "big"), b"\xa1\xb1", 20 << 20),
}
"""Name -> the beginning of a member, the bytes repeated after it, and their number."""


@pytest.mark.parametrize("case", BOMBS)
def test_small_file_cannot_exhaust_memory(case: str, tmp_path: Path) -> None:
    """The sizes in the directory and the msgpack headers are added up before any object is created."""
    beginning, repeated, times = BOMBS[case]
    members = {
        "snapshot.json": build_header(objects={"ReplicaSet": 1}),
        "ReplicaSet.msgpack": beginning + repeated * times,
    }
    path = zip_members(tmp_path / "s", members)
    assert path.stat().st_size < 3 << 20
    with pytest.raises(InputError, match="needs more than 1,024 MiB of memory"):
        read_archive(str(path))


def test_wrong_sizes_in_the_directory_are_errors(tmp_path: Path) -> None:
    """A member is decompressed only up to its announced size."""
    path = zip_members(tmp_path / "s", {"snapshot.json": POD_HEADER, "Pod.msgpack": b"\0" * (50 << 20)})
    data = path.read_bytes()
    path.write_bytes(data.replace((50 << 20).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    tracemalloc.start()
    with pytest.raises(InputError, match="damaged snapshot: Bad CRC-32"):
        read_archive(str(path))
    assert tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()


def test_member_shorter_than_announced_is_an_error(tmp_path: Path) -> None:
    """Its checksum is right."""
    path = zip_members(tmp_path / "s", {"snapshot.json": POD_HEADER, "Pod.msgpack": b"\0" * 4321})
    data = path.read_bytes()
    path.write_bytes(data.replace((4321).to_bytes(4, "little"), (9876).to_bytes(4, "little")))
    with pytest.raises(InputError, match=r"damaged snapshot: Pod\.msgpack does not have the size"):
        read_archive(str(path))


def test_too_large_file_is_not_read(tmp_path: Path) -> None:
    path = zip_members(tmp_path / "s", {"snapshot.json": POD_HEADER})
    with path.open("r+b") as file:
        file.truncate(MAX_FILE_SIZE + 1)
    with pytest.raises(InputError, match=f"larger than {MAX_FILE_SIZE >> 20:,} MiB"):
        read_archive(str(path))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_devices_are_not_snapshots(device: str) -> None:
    with pytest.raises(InputError, match=f"{device}: not a snapshot"):
        read_archive(device)


def test_pipes_are_read_and_broken_ones_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = save_small_snapshot(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: no program writes to this pipe"):
        read_archive(str(tmp_path / "pipe"))
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    assert len(read_archive(str(tmp_path / "pipe")).nodes) == 1
    writer.join()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert len(read_archive("-").nodes) == 1
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input: closed"):
        read_archive("-")


def save_small_snapshot(folder: Path) -> bytes:
    """Save a node and a pod, two kinds that are stored in tables, and one that is not."""
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}
    namespace = {"kind": "Namespace", "metadata": {"name": "default"}}
    write_archive(kschedctl.Cluster.from_objects([node, pod, namespace]), str(folder / "small"))
    return (folder / "small").read_bytes()


def read_or_get_error(data: bytes, path: Path) -> str:
    """Return the objects read from a file, or the line of the error."""
    path.write_bytes(data)
    try:
        cluster = read_archive(str(path))
    except InputError as error:
        line = str(error)
        return "told" if line.startswith(f"{path}: ") and "\n" not in line else line
    return msgspec.json.encode([list(getattr(cluster, field)) for field in FIELDS.values()]).decode()


def test_flipped_bits_are_detected_or_harmless(tmp_path: Path) -> None:
    data = save_small_snapshot(tmp_path)
    places = [divmod(number, 8) for number in range(0, 8 * len(data), 5)]  # each bit of a byte in its turn
    outcomes = Counter(
        read_or_get_error(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], tmp_path / "s")
        for at, bit in places
    )
    assert set(outcomes) == {"told", read_or_get_error(data, tmp_path / "s")}
    assert outcomes["told"] > len(places) / 2


def test_truncated_files_are_errors(tmp_path: Path) -> None:
    data = save_small_snapshot(tmp_path)
    assert {read_or_get_error(data[:length], tmp_path / "s") for length in range(len(data))} == {"told"}


RECORDS: dict[str, Any] = {
    "a template that is not there": {6: b"\1\0\0\0"},
    "a template before the first": {6: b"\xff\xff\xff\xff"},
    "a spec that is not there": {5: b"\0\0\0\0\7" + b"\0" * 15},
    "half a code": {6: b"\0\0"},
    "fewer names": {7: []},
    "a name with a slash": {7: ["a/b"]},
    "more UIDs": {8: ["uids", b"\0" * 32]},
    "texts for nodes only": {9: ["uids", b"\0" * 16]},
    "a time after all": {10: ["times", b"\xff" * 7 + b"\x7f"]},
    "more times": {11: ["times", b"\0" * 16]},
}


@pytest.mark.parametrize("case", RECORDS)
def test_inconsistent_tables_are_errors(case: str, tmp_path: Path) -> None:
    """Their checksums are right, so such tables are made on purpose."""
    save_small_snapshot(tmp_path)
    with zipfile.ZipFile(tmp_path / "small") as file:
        members = {name: file.read(name) for name in file.namelist()}
    record = msgspec.msgpack.decode(members["Pod.msgpack"])
    for field, value in RECORDS[case].items():
        record[field] = value
    members["Pod.msgpack"] = msgspec.msgpack.encode(record)
    assert read_or_get_error(zip_members(tmp_path / "crafted", members).read_bytes(), tmp_path / "s") == "told"


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    path.write_text("before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="cannot be written: no space left on device"):
        write_archive(read_demo_cluster(), str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["s"]
    assert path.read_text() == "before"
    with pytest.raises(InputError, match="cannot be written"):
        write_archive(read_demo_cluster(), str(tmp_path / "no" / "such" / "folder"))


def test_table_is_stored_unchanged(tmp_path: Path) -> None:
    cluster = build_recorded_cluster()
    table, again = PodTable.from_pods(cluster.pods), write_and_read(cluster, tmp_path).pods
    assert isinstance(again, PodTable)
    assert msgspec.msgpack.encode(list(again)) == msgspec.msgpack.encode(list(table))


@pytest.mark.parametrize(
    ("server", "replayed", "warnings"),
    [
        ("v1.38.2", "1.37", ("the server is v1.38.2, newer than what can be replayed: the rules of 1.37 are used",)),
        ("v1.29.1", "1.30", ("the server is v1.29.1, older than what can be replayed: the rules of 1.30 are used",)),
        ("v1.37.2", "1.37.2", (UNVERIFIED,)),
        ("v1.37.2", "1.34", ()),  # as whoever saved it asked
        ("v1.36.2", "1.36.2", ()),
        ("built by hand", "1.36", ()),
    ],
)
def test_replayed_version_is_reported_again(
    server: str, replayed: str, warnings: tuple[str, ...], tmp_path: Path
) -> None:
    cluster = Cluster(kube_version=replayed, provenance=Provenance(server="https://x", server_version=server))
    assert write_and_read(cluster, tmp_path).warnings == warnings
    asked = kschedctl.Cluster.from_snapshot(tmp_path / "snapshot", kube_version="1.35")
    assert asked.warnings == ()
