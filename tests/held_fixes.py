"""Check fixes of waiting pods as anybody could: settle the queue, change the objects, and simulate the queue again.

Nobody applies a fix before the pods that need no fix have their nodes. Nothing here uses the code by which fixes are
verified: changes are applied to documents by RFC 6902, and
``simulate`` schedules all waiting pods of the changed cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from applied import apply

from kschedctl import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.simulate import simulate
from kschedctl.reports.remedy import Remedy

Json = dict[str, Any]


def is_placed(documents: Sequence[Json], remedy: Remedy, pod: str) -> bool:
    """Return whether the pod, as ``namespace/name``, has a node once the fix is applied and nothing moves any more.

    The fix is applied after the other waiting pods have the nodes that they get without it.
    """
    settled_documents = settle_documents(documents, pod)
    report = simulate(Cluster.from_objects(apply(remedy, settled_documents)), [], pending=True)
    return pod in report.placements


def settle_documents(documents: Sequence[Json], pod: str) -> list[Json]:
    """Return the documents with all waiting pods on the nodes that they get, unless this pod is one of them."""
    report = simulate(Cluster.from_objects(documents), [], pending=True)
    if pod in report.placements:
        return list(documents)
    node_by_pod = {**{evicted.pod: evicted.target for evicted in report.evicted}, **report.placements}

    def settle_document(document: Json) -> Json:
        """Return the document, with the node that it gets if it is a pod whose node changes."""
        key = f"{document['metadata'].get('namespace')}/{document['metadata']['name']}"
        if document["kind"] != "Pod" or key not in node_by_pod:
            return document
        return {**document, "spec": {**document["spec"], "nodeName": node_by_pod[key]}}

    return [settle_document(document) for document in documents]


@dataclass
class HeldFixes:
    """The outcomes of fixes of waiting pods in the queue. Each list holds pods as ``namespace/name``."""

    helped: list[str] = field(default_factory=list)
    """The pods that have a fix."""
    promised: list[str] = field(default_factory=list)
    """The pods whose first fix is presented as one that places them."""
    broken: list[str] = field(default_factory=list)
    """Those of the promised pods that still wait after the fix."""
    helpless: list[str] = field(default_factory=list)
    """The pods with fixes of which none holds."""
    modest: list[str] = field(default_factory=list)
    """The pods whose first fix is said not to hold, though it does."""

    def judge(self, documents: Sequence[Json], pods: Iterable[str], most: int | None = None) -> None:
        """Apply the fixes of each pod one by one until a fix holds, and record the outcomes.

        At most ``most`` pods with fixes are judged, or all if it is None.
        """
        before = len(self.helped)
        cluster = Cluster.from_objects(documents)
        for pod in pods:
            if most is not None and len(self.helped) - before >= most:
                return
            self.judge_fixes(documents, {pod: explain(cluster, pod, remedies=True).remedies})

    def judge_fixes(self, documents: Sequence[Json], fixes_by_pod: Mapping[str, Sequence[Remedy]]) -> None:
        """Apply the fixes of each pod one by one until a fix holds, and record the outcomes."""
        for pod, fixes in fixes_by_pod.items():
            if not fixes:
                continue
            self.helped.append(pod)
            holds = is_placed(documents, fixes[0], pod)
            if not fixes[0].rivals and fixes[0].holds is not False:
                self.promised.append(pod)
                self.broken += [] if holds else [pod]
            elif holds:
                self.modest.append(pod)
            if not holds and not any(is_placed(documents, fix, pod) for fix in fixes[1:] if not fix.rivals):
                self.helpless.append(pod)
