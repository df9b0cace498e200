"""Golden cases from the descheduler's own table tests, and our answers for the same cluster."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import drop_nulls
from kschedctl.api.times import parse_microseconds
from kschedctl.cluster import FIELDS, Cluster, convert_document
from kschedctl.descheduling.arguments import DefaultEvictorArgs, PluginArguments
from kschedctl.descheduling.descheduler import PLUGIN_TYPES, build_profile_round
from kschedctl.descheduling.evictions import EvictionCounter
from kschedctl.descheduling.plugin import DeschedulingRound
from kschedctl.descheduling.policy import PLUGINS, PolicyEvictionLimits
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.snapshot import Settings

GOLDEN = Path(__file__).parents[1] / "golden" / "descheduling"
LISTS = ("nodes", "pods", "namespaces", "pvcs", "pdbs", "priorityClasses")
KINDS = {
    "namespaces": ("v1", "Namespace"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pdbs": ("policy/v1", "PodDisruptionBudget"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
}
Case = dict[str, Any]


def read_cases(name: str) -> list[Case]:
    with lzma.open(GOLDEN / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def build_fork(case: Case, *, ended: bool = False) -> Fork:
    """Build the fork of a case's cluster. With ``ended``, it contains the pods that have terminated."""
    objects: dict[str, list[Any]] = {}
    for field, (version, kind) in KINDS.items():
        for document in case.get(field, ()):
            made = convert_document({"apiVersion": version, "kind": kind, **document})
            objects.setdefault(FIELDS[kind], []).append(made)
    cluster = Cluster(**{field: tuple(several) for field, several in objects.items()})
    return Fork.from_cluster(cluster, Settings(ended=ended))


def convert_arguments(plugin: str, document: Case | None) -> PluginArguments:
    return convert_builtins(drop_nulls(document or {}), PLUGINS[plugin].arguments)


def start_round(case: Case, evictor: str) -> tuple[DeschedulingRound, list[str]]:
    """Start a round on the case's cluster, with a list of evicted pods. PDBs allow every eviction."""
    evicted = list[str]()
    seen, ended = (
        SeenPods(build_fork(case, ended=of_ended), parse_microseconds(case["now"])) for of_ended in (False, True)
    )
    for side in (seen, ended) if "readyNodes" in case else ():
        side.ready = np.isin(side.view.nodes.names, case["readyNodes"])

    def into(side: SeenPods) -> Callable[[int, str], str]:
        def carry_out(position: int, plugin: str) -> str:
            evicted.append(side.view.pods.objects[position].key)
            return ""

        return carry_out

    limits = case.get("options", {})
    counter = EvictionCounter(
        seen,
        PolicyEvictionLimits(limits.get("node"), limits.get("namespace"), limits.get("total")),
        into(seen),
    )
    given = convert_arguments("DefaultEvictor", case[evictor])
    assert isinstance(given, DefaultEvictorArgs)
    return build_profile_round(given, counter, counter.build_counter_for_other_pods(ended, into(ended))), evicted


def list_evicted_pods(case: Case) -> list[str]:
    """Return the pods that the case's plugin evicts."""
    where, evicted = start_round(case, "evictor")
    PLUGIN_TYPES[case["plugin"]](convert_arguments(case["plugin"], case["args"]), where).run()
    return evicted


def agrees(case: Case, evicted: list[str]) -> bool:
    """Return whether the evictions are among upstream's answers.

    If these vary by Go's map order, it is enough to evict as many pods as in one of them. A pod with two owners is
    evicted once for each.
    """
    answers = [sorted(set(answer)) for answer in case["evicted"]]
    if len(answers) == 1:
        return sorted(evicted) == answers[0]
    return len(evicted) in Counter(map(len, answers))
