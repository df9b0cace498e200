"""Runs of one plugin on a case of upstream's tables, or on any small cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest
from golden_cases import Json, read_table

from kschedctl.api.objects import Pod
from kschedctl.cluster import FIELDS, Cluster, convert_document
from kschedctl.scheduler.framework import PluginError, PluginVerdict, Status
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import Settings

Args = TypeVar("Args")

SUCCESS = {"code": "Success", "reasons": []}


def parametrize_cases(name: str, *kinds: str, left_out: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Parametrize a test with the cases of a table that have certain kinds, except those named in ``left_out``."""
    skipped = set(left_out)
    chosen = [case for case in read_table(name) if case["kind"] in kinds and case["name"] not in skipped]
    unknown = skipped - {case["name"] for case in read_table(name)}
    assert not unknown, f"no such cases: {unknown}"
    ids = [f"{case['test']}-{case['name'][:70]}" for case in chosen]
    return pytest.mark.parametrize("case", chosen, ids=ids)


def build_snapshot(case: Json, settings: Settings = Settings(), more: Iterable[Json] = ()) -> Fork:
    """Build a fork of the case's objects, with nodes in the table's order. An empty namespace stays empty."""
    found: dict[str, list[Any]] = {}
    for key in ("nodes", "pods", "namespaces", "objects"):
        for document in case.get(key, ()):
            found.setdefault(FIELDS[document["kind"]], []).append(convert_document(document))
    found.setdefault("pods", []).extend(map(convert_document, more))
    return Fork.from_cluster(Cluster(**{field: tuple(objects) for field, objects in found.items()}), settings)


def find_pod_info(case: Json, view: Fork) -> PodInfo:
    """Return the case's pending pod."""
    pod = convert_document(case["pod"])
    assert isinstance(pod, Pod)
    return PodInfo(pod, view.settings.requests)


def build_plugin_args(case: Json, kind: type[Args]) -> Args:
    """Return the plugin's arguments as in the table, with our defaults for missing ones."""
    given = {key: value for key, value in case.get("args", {}).items() if key not in {"apiVersion", "kind"}}
    return msgspec.convert(given, kind)


def drop_node_name(pod: Json) -> Json:
    """Return the pod without its node."""
    return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}


def build_delta(view: Fork, node: str, pod: Json, sign: int) -> Delta:
    """Return a delta by which a pod of the snapshot comes to a node (+1) or leaves it (-1)."""
    key = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    info = view.pods.info[view.pods.index[key]]
    return Delta(np.array([view.nodes.index[node]], np.int32), np.array([info], np.int32), np.array([sign], np.int64))


def is_gate_enabled(case: Json, name: str, default: bool = True) -> bool:
    """Return whether a feature gate was on when the table ran."""
    return case.get("featureGates", {}).get(name, default and name not in case.get("featureGatesOff", ()))


def show_status(status: Status) -> Json:
    return {"code": str(status.code), "reasons": sorted(status.reasons)}


def run_pre_filter(plugin: Any, info: PodInfo, view: Fork) -> tuple[Json, Any]:
    """Run PreFilter, and return its status in the table's form and its state. The state is None after an error."""
    try:
        result = plugin.pre_filter(info, view)
    except PluginError as error:
        return {"code": "Error", "reasons": [str(error)], "nodeNames": None, "skip": False}, None
    names = None if result.node_names is None else sorted(result.node_names)
    return {**show_status(result.status), "nodeNames": names, "skip": result.status.code == "Skip"}, result.state


def run_filter(plugin: Any, info: PodInfo, view: Fork, state: Any = None, delta: Delta = NO_CHANGE) -> Json:
    """Return the Filter status of each node in the table's form."""
    verdict = PluginVerdict.from_rejections(plugin.filter(info, view, state, delta), len(view.nodes))
    return {name: show_status(verdict.get_status(row)) for row, name in enumerate(view.nodes.names)}


def answer(plugin: Any, info: PodInfo, view: Fork, delta: Delta = NO_CHANGE) -> Json:
    """Return the results of PreFilter and, unless it ends the attempt, of Filter."""
    status, state = run_pre_filter(plugin, info, view)
    if status["code"] != "Success":
        return {"prefilter": status}
    return {"prefilter": status, "filter": run_filter(plugin, info, view, state, delta)}


def compute_scores(plugin: Any, info: PodInfo, view: Fork, nodes: Iterable[str] | None = None) -> Json:
    """Return raw and normalized scores by PreScore, Score and NormalizeScore."""
    chosen = list(view.nodes.names if nodes is None else nodes)
    rows = np.array([view.nodes.index[name] for name in chosen], np.int64)
    state = None
    if hasattr(plugin, "pre_score"):
        try:
            before = plugin.pre_score(info, view, rows)
        except PluginError as error:
            return {"prescore": {"code": "Error", "reasons": [str(error)]}}
        if before.skip:
            return {"prescore": {"code": "Skip", "reasons": []}}
        state = before.state
    elif hasattr(plugin, "pre_filter"):
        state = plugin.pre_filter(info, view).state
    raw = plugin.score(info, view, state, rows)
    normalized = plugin.normalize(state, raw)
    return {
        "prescore": SUCCESS,
        "rawScores": dict(zip(chosen, raw.tolist(), strict=True)),
        "scores": dict(zip(chosen, normalized.tolist(), strict=True)),
    }
