"""Parts of pods that extenders may read but no plugin does. They are sent if known, and stored nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kschedctl.scheduler.engine.extenders.extender import CallExtender

NOT_SENT = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""Annotations that repeat the whole pod, including its environment variables."""
Payload = Mapping[str, Any]
"""The payload sent to an extender, or a document that becomes part of it."""


class PodExtras(NamedTuple):
    """Annotations and volumes, as in the pod's document."""

    annotations: dict[str, str]
    volumes: tuple[Payload, ...]

    @classmethod
    def from_document(cls, pod: Payload) -> PodExtras:
        """Extract the annotations and named volumes of a pod or pod template. Invalid ones are left out."""
        annotations = _get_mapping(_get_mapping(pod, "metadata"), "annotations")
        sent_annotations = {str(k): v for k, v in annotations.items() if isinstance(v, str) and k not in NOT_SENT}
        volumes = _get_mapping(pod, "spec").get("volumes")
        documents = volumes if isinstance(volumes, list) else ()
        return cls(
            sent_annotations,
            tuple(volume for volume in documents if isinstance(volume, Mapping) and volume.get("name")),
        )

    def add_to(self, pod: Payload) -> dict[str, object]:
        """Return a copy of the pod with these annotations and volumes added.

        They replace those of the same name. Others, such as volumes that admission added, are kept.
        """
        annotations = {**pod["metadata"].get("annotations", {}), **self.annotations}
        metadata = {**pod["metadata"], "annotations": annotations}

        volume_by_name = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        volume_by_name |= {volume["name"]: volume for volume in self.volumes}
        spec = dict(pod["spec"])
        if volume_by_name:
            spec["volumes"] = list(volume_by_name.values())
        return {**pod, "metadata": metadata, "spec": spec}


class WholePods:
    """A caller of extenders through ``call``, which adds the parts of pods that no plugin reads, if they are known."""

    def __init__(self, call: CallExtender) -> None:
        self._call = call
        self.full_pods: dict[str, PodExtras] = {}

    def __call__(self, extender: Payload, verb: str, payload: Payload) -> tuple[int, object]:
        """Call the extender with the completed pod. Raises what ``call`` raises."""
        metadata = payload["Pod"]["metadata"]
        extras = self.full_pods.get(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")
        return self._call(extender, verb, {**payload, "Pod": extras.add_to(payload["Pod"])} if extras else payload)


def iter_pod_documents(documents: Iterable[Payload]) -> Iterator[tuple[str, Payload]]:
    """Yield ``namespace/name`` and document of each pod among the documents and in lists among them."""
    for document in documents:
        items = document.get("items")
        for item in items if isinstance(items, list) else (document,):
            kind = item.get("kind", "Pod" if document.get("kind") == "PodList" else "")
            if kind == "Pod":
                metadata = _get_mapping(item, "metadata")
                yield f"{metadata.get('namespace') or 'default'}/{metadata.get('name', '')}", item


def _get_mapping(document: Payload, name: str) -> Payload:
    """Return a field's mapping, or an empty one if it is anything else."""
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}
