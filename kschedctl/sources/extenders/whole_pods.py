"""What an extender may read of a pod and no plugin does: it is sent where it is at hand, and kept nowhere else.

A live scheduler sends the whole pod. Its environment, and what kubectl applied last with it, are not sent from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kschedctl.scheduler.engine.extenders.extender import CallExtender

NOT_SENT = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""Annotations that repeat the whole pod, its environment too."""
Payload = Mapping[str, Any]
"""What is sent to an extender, or a document that becomes a part of it."""


class PodExtras(NamedTuple):
    """Annotations and volumes, as the document of the pod has them."""

    annotations: dict[str, str]
    volumes: tuple[Payload, ...]

    @classmethod
    def of(cls, pod: Payload) -> PodExtras:
        """What extenders see besides of a pod or a template as somebody wrote it; what is of no use is left out."""
        annotations = _mapping(_mapping(pod, "metadata"), "annotations")
        sent = {str(k): v for k, v in annotations.items() if isinstance(v, str) and k not in NOT_SENT}
        volumes = _mapping(pod, "spec").get("volumes")
        named = volumes if isinstance(volumes, list) else ()
        return cls(sent, tuple(volume for volume in named if isinstance(volume, Mapping) and volume.get("name")))

    def added_to(self, pod: Payload) -> dict[str, object]:
        """The pod that is sent. Volumes that its controller gave it stay."""
        own = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        volumes = list({**own, **{volume["name"]: volume for volume in self.volumes}}.values())
        metadata = {**pod["metadata"], "annotations": {**pod["metadata"].get("annotations", {}), **self.annotations}}
        return {**pod, "metadata": metadata, "spec": {**pod["spec"], **({"volumes": volumes} if volumes else {})}}


class WholePods:
    """Asks through ``call``, with what is ``known`` besides of pods, by ``namespace/name``; who asks fills it."""

    def __init__(self, call: CallExtender) -> None:
        self._call = call
        self.full_pods: dict[str, PodExtras] = {}

    def __call__(self, extender: Payload, verb: str, payload: Payload) -> tuple[int, object]:
        """Raises what ``call`` raises."""
        metadata = payload["Pod"]["metadata"]
        besides = self.full_pods.get(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")
        return self._call(extender, verb, {**payload, "Pod": besides.added_to(payload["Pod"])} if besides else payload)


def pods_among(documents: Iterable[Payload]) -> Iterator[tuple[str, Payload]]:
    """``namespace/name`` and document of each pod, those in lists too."""
    for document in documents:
        items = document.get("items")
        for item in items if isinstance(items, list) else (document,):
            kind = item.get("kind", "Pod" if document.get("kind") == "PodList" else "")
            if kind == "Pod":
                metadata = _mapping(item, "metadata")
                yield f"{metadata.get('namespace') or 'default'}/{metadata.get('name', '')}", item


def _mapping(document: Payload, name: str) -> Payload:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}
