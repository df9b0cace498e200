"""Check that every error in a file gives one line with file, document and field."""

from __future__ import annotations

import gzip
import io
import json
import os
import tracemalloc
from pathlib import Path

import pytest

from kschedctl.api.kinds import KINDS
from kschedctl.errors import InputError
from kschedctl.sources.documents.documents import parse_documents, read_content
from kschedctl.sources.documents.files import Reader
from kschedctl.sources.read import load_configuration_file, read_paths

POD = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{%s}}'
NODE_5 = '"nodeName":5'
CPU = POD % '"containers":[{"name":"c","resources":{"requests":{"cpu":%s}}}]'
NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

NESTED = "invalid YAML: mapping values are not allowed in this context"
REQUEST = "document 1, spec.containers[0].resources.requests.cpu"

ATTRIBUTE = """apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: d
  nodeName: n1
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices: [{name: d, attributes: {x: {int: %s}}}]
"""
IN_A_MAP = "document 1, spec.devices[0].attributes[x].int"
CASES: dict[str, tuple[str | bytes, str]] = {
    "truncated.json": (
        '{"kind":"Pod","metadata":{"na',
        "document 1, line 1, column 27: invalid JSON: unterminated string",
    ),
    "broken.yaml": (
        "kind: Pod\n  metadata: [",
        "document 1, line 2: " + NESTED,
    ),
    "second.yaml": (
        "kind: Event\n---\na: b: c",
        "document 2, line 3: " + NESTED,
    ),
    "type.json": (POD % NODE_5, "document 1, spec.nodeName: expected str, got int"),
    "type.yaml": (
        "kind: Event\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeName: on}",
        "document 2 (line 2), spec.nodeName: expected str, got bool",
    ),
    "item.json": (
        f'{{"kind":"List","apiVersion":"v1","items":[{POD % ""},{POD % NODE_5}]}}',
        "document 1, items[1].spec.nodeName: expected str, got int",
    ),
    "nested-list.json": (
        '{"kind":"List","items":[{"kind":"PodList","items":[5]}]}',
        "document 1, items[0].items[0]: expected an object, got int",
    ),
    "label.yaml": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {app: web, version: 1}}",
        "document 1, metadata.labels[version]: expected str, got int",
    ),
    "counter.yaml": (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: a}\n"
        "spec: {devices: [{name: d}, {name: e, capacity: {used: {value: 1Gi}, free: {value: [1]}}}]}",
        "document 1, spec.devices[1].capacity[free].value: expected int | float | str, got array",
    ),
    "beyond.yaml": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priority: 99999999999999999999999}",
        "document 1, spec.priority: number out of range",
    ),
    "beyond-in-a-map.yaml": (ATTRIBUTE % "99999999999999999999999", f"{IN_A_MAP}: number out of range"),
    "fraction-in-a-map.yaml": (ATTRIBUTE % "1.5", f"{IN_A_MAP}: expected int, got float"),
    "fraction.yaml": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, ports: [{hostPort: 1.5}]}]}",
        "document 1, spec.containers[0].ports[0].hostPort: expected int, got float",
    ),
    "version.yaml": (
        "apiVersion: apps/v1\nkind: Pod\nmetadata: {name: a}",
        "document 1: Pod in apiVersion apps/v1 is not known (kschedctl reads v1)",
    ),
    "legacy.yaml": (
        "apiVersion: extensions/v1beta1\nkind: ReplicaSet",
        "document 1: ReplicaSet in apiVersion extensions/v1beta1 was removed in 1.16 (kschedctl reads apps/v1)",
    ),
    "quantity.json": (
        CPU % '"1.5.5Gi"',
        f"{REQUEST}: {NO_QUANTITY} (got '1.5.5Gi')",
    ),
    "negative.json": (
        CPU % '"-1"',
        f"{REQUEST}: resource cpu: must be greater than or equal to 0 (got -1)",
    ),
    "large.yaml": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {overhead: {cpu: 1e2000}}",
        "document 1, spec.overhead.cpu: quantities of more than 1000 digits are not supported (got '1e2000')",
    ),
    "node.yaml": (
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {example.com/gpu: some}}",
        f"document 1, status.allocatable[example.com/gpu]: {NO_QUANTITY} (got 'some')",
    ),
    "number.json": (POD % '"priority":99999999999999999999', "document 1, spec.priority: number out of range"),
    "nan.json": (POD % '"priority":NaN', "document 1: NaN is not a JSON value"),
    "twice.json": ('{"kind":"Pod","kind":"Node"}', "document 1: duplicate field 'kind'"),
    "twice.yaml": ("kind: Pod\nkind: Node", "document 1, line 2: key 'kind' already set in map"),
    "recursive.yaml": ("a: &a [*a]", "document 1, line 1: unknown anchor 'a', or one that contains itself"),
    "python.yaml": (
        "a: !!python/object:os.system x",
        "document 1, line 1: Kubernetes does not support the YAML tag tag:yaml.org,2002:python/object:os.system",
    ),
    "infinite.yaml": ("a: .inf", "document 1, line 1: unsupported value: inf"),
    "deep.json": ('{"a":' + "[" * 100_000, "document 1: nested more than 100 levels deep"),
    "deep-pod.json": (POD % ('"a":' + '{"a":' * 900 + "1" + "}" * 900), "document 1: nested more than 100 levels deep"),
    "deeper-than-yaml.json": (POD % ('"a":' + "[" * 99 + "]" * 99), "document 1: nested more than 100 levels deep"),
    "long-integer.json": (POD % ('"priority":' + "9" * 5000), "document 1: an integer of more than 4,300 digits"),
    "long-hexadecimal.yaml": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priority: 0x" + "f" * 5000 + "}",
        "document 1, spec.priority: expected int | null, got str".replace(" | null", ""),
    ),
    "deep.yaml": ("\n" + "[" * 200, "document 1, line 2: nested more than 100 levels deep"),
    "latin.yaml": ("kind: caf\xe9".encode("latin-1"), "not UTF-8: byte 10 is 0xe9"),
    "utf-16.yaml": ("kind: Pod".encode("utf-16"), "encoded as UTF-16 (save it as UTF-8)"),
    "binary.yaml": (bytes(range(256)), "neither JSON nor YAML, but binary data"),
    "surrogate.json": (
        '{"kind":"Pod","metadata":{"name":"\\ud800"}}',
        "document 1: contains half of a surrogate pair, which is not valid text",
    ),
    "no-kind.yaml": ("replicas: 1", "document 1: not a Kubernetes object: it has no kind"),
    "array.json": ('[{"kind":"Pod"}]', "document 1: expected an object, got array"),
    "kind.json": ('{"kind":5}', "document 1, kind: expected str, got int"),
    "items.json": ('{"kind":"PodList","items":{}}', "document 1, items: expected array, got object"),
    "no-name.json": ('{"kind":"Node","metadata":{}}', "document 1, metadata.name: required"),
    "status.json": (
        '{"kind":"Status","status":"Failure"}',
        "document 1: a Status is not a cluster object (use the output of kubectl get -o json or -o yaml)",
    ),
    "empty.yaml": ("", "contains no Kubernetes objects"),
    "comments.yaml": ("# nothing\n---\n---\n", "contains no Kubernetes objects"),
    "cut.json.gz": (
        gzip.compress(b'{"kind":"Pod"}' * 9)[:-9],
        "damaged gzip file: Compressed file ended before the end-of-stream marker was reached",
    ),
    "bomb.json.gz": (
        gzip.compress(b'{"a":"') + gzip.compress(b" " * (1 << 20)) * 80,
        "expands to more than 200 times its size",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, message = CASES[name]
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as raised:
        read_paths([name])
    assert str(raised.value) == f"{name}: {message}"


def test_yaml_bomb_is_rejected() -> None:
    """Nine levels of nine aliases are 9**9 values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    with pytest.raises(InputError, match="line 6: document contains excessive aliasing"):
        read_paths(["-"], stdin=io.BytesIO("\n".join(lines).encode()))


class _Endless(io.RawIOBase):
    """A file that repeats the same bytes for a gigabyte after its beginning."""

    def __init__(self, head: bytes, filler: bytes) -> None:
        self._head, self._filler, self._left = head, filler, 1 << 30

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        size = min(size - len(head), self._left)
        self._left -= size
        return head + (self._filler * (size // len(self._filler) + 1))[:size]


@pytest.mark.parametrize(
    ("head", "filler", "message"),
    [
        ("", "a", "neither JSON nor YAML: the first line is longer than 64 KiB"),
        ("", "[", "neither JSON nor YAML: the first line is longer than 64 KiB"),
        ("", "\0", "neither JSON nor YAML, but binary data"),
        ('{"kind":"', "a", "larger than 256 MiB (only JSON lists can be larger)"),
        ('{"kind":"PodList","items":[{"', "a", "document 1, items[0]: larger than 64 MiB"),
        ('{"kind":"PodList","items":[{"a":', "[", "nested too deeply"),
        ('{"kind":"PodList","items":[{}', ",", "document 1, items[1]: invalid JSON: expecting value"),
    ],
)
def test_gigabyte_of_garbage(head: str, filler: str, message: str) -> None:
    tracemalloc.start()
    with pytest.raises(InputError) as raised:
        read_paths(["-"], stdin=_Endless(head.encode(), filler.encode()))  # type: ignore[arg-type]
    assert str(raised.value) == f"standard input: {message}"
    assert tracemalloc.get_traced_memory()[1] < 700 << 20
    tracemalloc.stop()


def test_missing_files_and_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "in" / "here").mkdir(parents=True)
    (tmp_path / "in" / "here" / "README.md").write_text("nothing")
    expected = {
        tmp_path / "nowhere.yaml": "no such file or directory",
        tmp_path / "in": "no .json, .yaml or .yml file in this folder (add -R to read the folders in it, too)",
        tmp_path / "in" / "here": "no .json, .yaml or .yml file in this folder",
    }
    for path, message in expected.items():
        with pytest.raises(InputError) as raised:
            read_paths([str(path)])
        assert str(raised.value) == f"{path}: {message}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").touch(mode=0o000)
    with pytest.raises(InputError, match=r"secret\.yaml: permission denied"):
        read_paths([str(tmp_path / "secret.yaml")])


def test_second_configuration_is_rejected() -> None:
    document = b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    with pytest.raises(InputError, match=r"document 2 \(line 3\): a second KubeSchedulerConfiguration"):
        read_paths(["-"], stdin=io.BytesIO(document + b"---\n" + document))


@pytest.mark.parametrize("text", ['{"kind":"KubeSchedulerConfiguration","a":"\\ud800"}', '{"kind":"X","\\uDFFF":1}'])
def test_lone_surrogates_are_rejected(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(InputError, match="document 1: contains half of a surrogate pair"):
        load_configuration_file(str(tmp_path / "c.json"))
    (tmp_path / "c.json").write_text('{"kind":"X","a":"\\ud83d\\ude00"}')
    assert load_configuration_file(str(tmp_path / "c.json"))["a"] == "\U0001f600"


def test_wrong_type_in_a_map_value_is_located() -> None:
    """Other values of the map may not have the field at all."""
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: a}\n"
        "spec: {devices: [{name: d, attributes: {a: {string: x}, b: {int: z}}}]}"
    )
    with pytest.raises(InputError, match=r"spec\.devices\[0\]\.attributes\[b\]\.int: expected int, got str"):
        read_paths(["-"], stdin=io.BytesIO(text.encode()))


HEAD = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['
ITEMS = b",".join(
    b'{"metadata":{"name":"p%d"},"spec":{"priority":1,"nodeName":"n"},"status":{"conditions":[{"type":"a"}]}}' % i
    for i in range(12_000)
)
BAD_LISTS: dict[str, tuple[bytes, str]] = {
    "byte in a name": (HEAD + ITEMS.replace(b"p7000", b"p\xff") + b"]}", "document 1, items[7000]: not UTF-8"),
    "byte in a condition": (
        HEAD + ITEMS[:800_000] + ITEMS[800_000:].replace(b'"type":"a"', b'"type":"\xff"', 1) + b"]}",
        "]: not UTF-8",
    ),
    "byte in the last item": (HEAD + ITEMS.replace(b"p11999", b"p\xff") + b"]}", "items[11999]: not UTF-8"),
    "byte in the head": (HEAD.replace(b'"1"', b'"\xff"') + ITEMS + b"]}", "not UTF-8"),
    "control character in the head": (
        HEAD.replace(b"v1", b"v\n1") + ITEMS + b"]}",
        "document 1: invalid JSON: invalid control character",
    ),
    "broken metadata": (HEAD.replace(b'"1"', b"") + ITEMS + b"]}", "invalid JSON: expecting value"),
    "key twice": (HEAD.replace(b'"kind"', b'"kind":"List","kind"') + ITEMS + b"]}", "duplicate field 'kind'"),
    "integer": (
        HEAD + ITEMS.replace(b'p7000"},"spec":{"priority":1', b'p7000"},"spec":{"priority":' + b"9" * 5000) + b"]}",
        "items[7000]: an integer of more than 4,300 digits",
    ),
    "byte after the items": (HEAD + ITEMS + b'],"a":"\xff"}', "not UTF-8"),
    "integer after the items": (HEAD + ITEMS + b'],"a":' + b"9" * 5000 + b"}", "integer of more than 4,300 digits"),
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_fault_in_a_long_list(name: str) -> None:
    data, said = BAD_LISTS[name]
    assert len(data) > 1 << 20
    with pytest.raises(InputError) as raised:
        read_paths(["-"], stdin=io.BytesIO(data))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", ["Pod", "Node", "PriorityClass"])
@pytest.mark.parametrize("length", [1, 20_000])
def test_name_with_a_slash_is_rejected(kind: str, length: int, tmp_path: Path) -> None:
    """``namespace/name`` means one object. Long lists are read by other code."""
    meta = {"name": "a/b", "labels": {"x": "y" * 60}}
    items = [
        {"kind": kind, "apiVersion": KINDS[kind].versions[0], "metadata": {**meta, "name": f"a{i}"}}
        for i in range(length)
    ]
    items[-1]["metadata"] = meta
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    with pytest.raises(InputError, match=rf'items\[{length - 1}\]\.metadata\.name: "a/b" may not contain "/"$'):
        read_paths([str(file)])
    items[-1]["metadata"] = {"name": "b", "namespace": "a/b"}
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    with pytest.raises(InputError, match=r'metadata\.namespace: "a/b" may not contain "/"$'):
        read_paths([str(file)])


@pytest.mark.parametrize("kind", ["List", "PodList"])
@pytest.mark.parametrize("items", [[None], [{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}, None]])
def test_null_in_a_list_is_located(kind: str, items: list[object], tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"kind": kind, "apiVersion": "v1", "items": items}))
    with pytest.raises(InputError, match=rf"items\[{len(items) - 1}\]: expected an object, got null$"):
        read_paths([str(file)])


def test_long_json_list_on_one_line() -> None:
    listed = [{"name": f"type-{i}", "pad": "x" * 100} for i in range(1_000)]
    reader = Reader("types.json", io.BytesIO(json.dumps(listed).encode()))
    (document,) = parse_documents(read_content(reader))
    assert document.value == listed
