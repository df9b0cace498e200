"""Golden cases computed by kube-scheduler, and the comparison with our answers.

``golden/<family>.jsonl.xz`` holds whole cases: objects, pod, configuration, and the scheduler's answer by part.
``golden/tables/<name>.jsonl.gz`` holds the scheduler project's own table tests. See ``golden/README.md``.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import kschedctl
from kschedctl.api.copying import replace
from kschedctl.api.kube_version import VersionMix

FOLDER = Path(__file__).parent / "golden"
FAMILIES = sorted(path.name.removesuffix(".jsonl.xz") for path in FOLDER.glob("*.jsonl.xz"))
VERSIONS = sorted(f"versions/{path.name.removesuffix('.jsonl.xz')}" for path in FOLDER.glob("versions/*.jsonl.xz"))
"""Cases of older schedulers, in one file per minor version."""
SETTINGS = {"config": "config", "feature_gates": "featureGates", "admit": "admit", "kube_version": "kubeVersion"}
"""Argument of ``Cluster.from_objects`` -> key of a case."""

Json = dict[str, Any]


@lru_cache(maxsize=2)
def iter_family_lines(name: str) -> list[str]:
    """Yield the cases of a family as lines of JSON, because all of them decoded would fill the memory."""
    with lzma.open(FOLDER / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return list(lines)


@cache
def read_table(name: str) -> list[Json]:
    """Return the cases of one of the scheduler's own tables."""
    with gzip.open(FOLDER / "tables" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def answer(case: Json, mix: VersionMix | None = None) -> Json:
    """Return our answer in the form of a case's ``want``. With ``mix``, parts are as in another version."""
    settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
    try:
        cluster = kschedctl.Cluster.from_objects(case["objects"], **settings)
        document = kschedctl.explain(replace(cluster, version_mix=mix), case["pod"]).to_dict()
    except kschedctl.KschedctlError as error:
        return {"verdict": "Refused", "message": str(error)}
    return get_compared_parts(document)


def get_compared_parts(document: Json) -> Json:
    """Return the compared parts of an Explanation, sorted where the order is undefined."""
    return {
        **{part: document[part] for part in ("verdict", "nodeOrder", "score", "normalized", "total", "message")},
        "queue": {plugin: _build_status(s) for plugin, s in document["queue"].items() if s["code"] != "Success"},
        "preFilter": {
            plugin: {**_build_status(s), "nodeNames": None if s.get("nodeNames") is None else sorted(s["nodeNames"])}
            for plugin, s in document["preFilter"].items()
        },
        "filter": {node: {p: _build_status(s) for p, s in found.items()} for node, found in document["filter"].items()},
        "firstFail": {node: {"plugin": s["plugin"], **_build_status(s)} for node, s in document["firstFail"].items()},
        "feasible": sorted(document["feasible"]),
        "best": sorted(document["best"]),
        "volumes": document["volumes"],
        "allocations": {
            node: list(map(_list_devices, found.values())) for node, found in document["allocations"].items()
        },
        "preemption": _format_preemption(document.get("preemption")),
    }


def _build_status(status: Json) -> Json:
    """Format a status."""
    return {"code": status["code"], "reasons": sorted(status.get("reasons", ()))}


def _list_devices(devices: list[Json]) -> list[Json]:
    """Return what a claim would get, in the allocator's order."""
    return [{key: value for key, value in device.items() if value} for device in devices]


def _format_preemption(found: Json | None) -> Json | None:
    """Format the result of preemption."""
    if found is None:
        return None
    candidates = {
        node: {"victims": candidate["victims"], "pdbViolations": candidate["pdbViolations"]}
        for node, candidate in found["candidates"].items()
    }
    return {"eligible": found["eligible"], "candidates": candidates, "tied": sorted(found["tied"])}


def list_differences(want: Json, got: Json) -> list[str]:
    """Yield a line for each place in which the answer differs from the scheduler's."""
    return [line for part in want for line in _iter_differences(part, want[part], got.get(part))]


def _iter_differences(path: str, want: Any, got: Any) -> Iterator[str]:
    """Yield a line for each difference below a path."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted(want.keys() | got.keys()):
            yield from _iter_differences(f"{path}.{key}", want.get(key), got.get(key))
    elif want != got:
        yield f"{path}: wanted {want!r}, got {got!r}"
