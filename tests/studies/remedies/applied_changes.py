"""Remedies as their report tells them, applied to documents as anybody would, without any code of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.reports.remedies import Remedies, Remedy
from kschedctl.studies.remedies.remedies import remedies
from kschedctl.studies.remedies.search import RemedyWishes

Json = dict[str, Any]
ASKED = "d/asked"


def found(documents: list[Json], most: int = 1, gates: Mapping[str, bool] | None = None) -> Remedies:
    """The remedies for the pod that is asked about, each of them tried."""
    report = remedies(Cluster.from_objects(documents, feature_gates=gates), ASKED, RemedyWishes(most))
    for remedy in report.remedies:
        assert_helps(documents, remedy, gates)
    return report


def assert_helps(documents: list[Json], remedy: Remedy, gates: Mapping[str, bool] | None) -> None:
    """With its changes made and everything read afresh, the pod fits just the nodes that it opens."""
    afresh = Cluster.from_objects(changed(documents, remedy.changes), feature_gates=gates)
    answer = kschedctl.explain(afresh, ASKED)
    if remedy.victims:
        assert answer.preemption is not None
        assert (answer.preemption.chosen,) == remedy.opens, remedy.summary
    else:
        assert answer.verdict == "Schedulable", remedy.summary
        assert sorted(answer.feasible) == sorted(remedy.opens), remedy.summary


def changed(documents: list[Json], changes: Iterable[Json]) -> list[Json]:
    """The documents with these objects created, deleted and patched."""
    left = {_named(each["kind"], each["metadata"]): deepcopy(each) for each in documents}
    for change in changes:
        if "create" in change:
            new = change["create"]
            assert _named(new["kind"], new["metadata"]) not in left
            left[_named(new["kind"], new["metadata"])] = new
        elif "delete" in change:
            del left[_named(change["delete"]["kind"], change["delete"])]
        else:
            for operation in change["patch"]:
                _apply(left[_named(change["kind"], change)], operation)
    return list(left.values())


def _named(kind: str, meta: Json) -> tuple[str, str, str]:
    return kind, meta.get("namespace") or "", meta["name"]


def _apply(document: Any, operation: Json) -> None:
    """RFC 6902: what is removed or replaced has to be there, and so has what something is added to."""
    *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
    place = document
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    at: Any = int(last) if isinstance(place, list) else last
    if operation["op"] in ("remove", "replace"):
        del place[at]
    if operation["op"] != "remove":
        place.insert(at, operation["value"]) if isinstance(place, list) else place.update({at: operation["value"]})
