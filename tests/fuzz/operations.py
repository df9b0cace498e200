"""Particular mutations that caused failures before and that random ones seldom hit."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]
TIMES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "1677-09-21T00:12:43Z",
    "0000-00-00",
)
TIME_FIELDS = ("creationTimestamp", "deletionTimestamp", "startTime", "lastTransitionTime", "timeAdded", "renewTime")
AMOUNTS = (
    "12E",
    "8Ei",
    "9223372036854775807",
    "9223372036854775808",
    "7.999Ei",
    "-8Ei",
    "1e19",
    2**63 - 1,
    2**63,
    10**30,
)
INTEGERS = (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 2**31, 10**30)
NAMES = ("a/b", "/", "a/", "/a", "a/b/c", "..", "%2f", "a" * 300)
VERSIONS = ("v99", "v2", "v1beta9", "v1alpha99", "v1", "v0", "beta", "v1beta1")
POINTS = (
    *("queueSort", "preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit"),
    *("preBind", "bind", "postBind", "multiPoint"),
)
GATES = (
    *("NoSuchGate=true", "ImageVolume=true", "MutableCSINodeAllocatableCount=true", "DynamicResourceAllocation=maybe"),
    *(
        "GenericWorkload=true,GangScheduling=true",
        "DRAConsumableCapacity=true",
        "A",
        "=true",
        "AllAlpha=true",
        "AllBeta=false",
    ),
    *("SchedulerQueueingHints=0", "kube:DRADeviceTaints=t", "DRADeviceTaints=true,DRADeviceTaints=false", " "),
)
Operator = Callable[[random.Random, list[Any]], list[Any]]


def damage_documents(rng: random.Random, documents: list[Any]) -> list[Any]:
    """Return a copy of the documents with one or two kinds of faults."""
    documents = copy.deepcopy(documents)
    for operator in rng.sample(OPERATORS, rng.choice((1, 1, 2))):
        documents = operator(rng, documents)
    return documents


def _iter_mappings(value: Any) -> Iterator[Json]:
    """Yield every mapping in a value."""
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            yield found
        stack += list(found.values() if isinstance(found, dict) else found if isinstance(found, list) else ())


def change_times(rng: random.Random, documents: list[Any]) -> list[Any]:
    """Change the times of all or some objects."""
    field, time, share = rng.choice(TIME_FIELDS), rng.choice(TIMES), rng.choice((0.1, 1.0))
    for document in documents:
        if isinstance(document, dict) and rng.random() < share:
            document.setdefault("metadata", {})["creationTimestamp"] = time
            if isinstance(status := document.setdefault("status", {}), dict) and document.get("kind") == "Pod":
                status["startTime"] = time
        for found in _iter_mappings(document):
            if field in found and rng.random() < share:
                found[field] = time
    return documents


def enlarge_integers(rng: random.Random, documents: list[Any]) -> list[Any]:
    """Change some integers to large ones."""
    places = [
        (found, key)
        for found in _iter_mappings(documents)
        for key, value in found.items()
        if isinstance(value, int) and not isinstance(value, bool)
    ]
    for found, key in rng.sample(places, min(len(places), rng.choice((1, 1, 5)))):
        found[key] = rng.choice(INTEGERS)
    return documents


def enlarge_amounts(rng: random.Random, documents: list[Any]) -> list[Any]:
    """Change requests, limits and capacities to amounts near 2^63."""
    fields = ("requests", "limits", "allocatable", "capacity", "hard", "overhead")
    places = [
        found[field] for found in _iter_mappings(documents) for field in fields if isinstance(found.get(field), dict)
    ]
    for found in rng.sample(places, min(len(places), rng.choice((1, 1, 5, 50)))):
        found[rng.choice(list(found) or ["memory"])] = rng.choice(AMOUNTS)
    return documents


def add_null_items(rng: random.Random, documents: list[Any]) -> list[Any]:
    documents.insert(rng.randrange(len(documents) + 1), rng.choice((None, None, [], {}, [None])))
    return documents


def change_names(rng: random.Random, documents: list[Any]) -> list[Any]:
    """Change the name or namespace of one object or of a kind."""
    kinds = [document.get("kind") for document in documents if isinstance(document, dict)]
    kind, field = rng.choice(kinds or [""]), rng.choice(("name", "name", "namespace"))
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == kind and isinstance(document.get("metadata"), dict):
            old = document["metadata"].get(field, "")
            document["metadata"][field] = rng.choice(NAMES) if rng.random() < 0.5 else f"{old[:1]}/{old[1:]}"
            if rng.random() < 0.5:
                break
    return documents


def change_versions(rng: random.Random, documents: list[Any]) -> list[Any]:
    """Change API versions to later or unknown ones, with or without an unknown field."""
    version = rng.choice(VERSIONS)
    kinds = [document.get("kind") for document in documents if isinstance(document, dict)]
    kind = rng.choice(kinds or [""])
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == kind:
            group, slash, _ = str(document.get("apiVersion", "v1")).rpartition("/")
            document["apiVersion"] = f"{group}{slash}{version}"
            if rng.random() < 0.3 and isinstance(document.get("spec", {}), dict):
                document.setdefault("spec", {})["novelty"] = 1
    return documents


def add_duplicates(rng: random.Random, documents: list[Any]) -> list[Any]:
    """Add the same object twice, or another object with its name."""
    for document in rng.sample(documents, min(len(documents), rng.choice((1, 1, 5)))):
        other = copy.deepcopy(document)
        if rng.random() < 0.5 and isinstance(other, dict):
            other["spec"] = {}
        documents.insert(rng.randrange(len(documents) + 1), other)
    return documents


OPERATORS: tuple[Operator, ...] = (
    *(change_times, enlarge_integers, enlarge_amounts, add_null_items, change_names, change_versions, add_duplicates),
)


def build_configuration_without_plugins(rng: random.Random) -> Json:
    """Build a configuration that disables all plugins of some extension points."""
    plugins: Json = {point: {"disabled": [{"name": "*"}]} for point in rng.sample(POINTS, rng.choice((1, 1, 2, 3)))}
    if rng.random() < 0.4:
        off = rng.sample(("TaintToleration", "PodTopologySpread", "InterPodAffinity", "NodeResourcesFit"), 2)
        plugins.setdefault("score", {"disabled": []})["disabled"] += [{"name": name} for name in off]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }
