"""Recording of extenders' answers and their replay for the same questions, and calls with completed pods."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.reports.plugin_answers import ExtenderAnswer, ExtenderAnswers
from kschedctl.scheduler.engine.extenders import CallExtender, ExtenderError, UnknownAnswerError
from kschedctl.sources.output_file import write_file
from kschedctl.sources.read import read_documents
from kschedctl.text.printable import strip_url

NOT_SENT = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""Annotations that repeat the whole pod, including its environment variables."""
Payload = Mapping[str, Any]
"""The payload sent to an extender, or a document that becomes part of it."""


class PodExtras(NamedTuple):
    """The annotations and volumes of a pod's document. A Pod keeps only the parts of them that plugins read."""

    annotations: dict[str, str]
    volumes: tuple[Payload, ...]

    @classmethod
    def from_document(cls, pod: Payload) -> PodExtras:
        """Extract the annotations and the volumes of a pod or pod template.

        Annotations in NOT_SENT, annotations that are not strings, and volumes without a name are left out.
        """
        annotations = _get_mapping(_get_mapping(pod, "metadata"), "annotations")
        sent_annotations = {
            str(key): value for key, value in annotations.items() if isinstance(value, str) and key not in NOT_SENT
        }
        volumes = _get_mapping(pod, "spec").get("volumes")
        if not isinstance(volumes, list):
            volumes = []
        named_volumes = [volume for volume in volumes if isinstance(volume, Mapping) and volume.get("name")]
        return cls(sent_annotations, tuple(named_volumes))

    def add_to_pod(self, pod: Payload) -> dict[str, object]:
        """Return a copy of the pod with these annotations and volumes added.

        Annotations and volumes of the same name are replaced. The pod keeps all others, for example volumes that
        admission added.
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
    """A caller of extenders through ``call``.

    It completes pods by the parts that no plugin reads, if they are known.
    """

    def __init__(self, call: CallExtender) -> None:
        self._call = call
        self.full_pods: dict[str, PodExtras] = {}
        """The parts to add to a pod, by ``namespace/name``."""

    def __call__(self, extender: Payload, verb: str, payload: Payload) -> tuple[int, object]:
        """Call the extender with the completed pod, and return HTTP status and body. Raises what ``call`` raises."""
        metadata = payload["Pod"]["metadata"]
        extras = self.full_pods.get(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")
        if extras:
            payload = {**payload, "Pod": extras.add_to_pod(payload["Pod"])}
        return self._call(extender, verb, payload)


def iter_pod_documents(documents: Iterable[Payload]) -> Iterator[tuple[str, Payload]]:
    """Yield ``namespace/name`` and the document of each pod in the documents, which may be lists of pods."""
    for document in documents:
        items = document.get("items")
        if not isinstance(items, list):
            items = [document]
        default_kind = "Pod" if document.get("kind") == "PodList" else ""
        for item in items:
            if item.get("kind", default_kind) == "Pod":
                metadata = _get_mapping(item, "metadata")
                yield f"{metadata.get('namespace') or 'default'}/{metadata.get('name', '')}", item


def _get_mapping(document: Payload, name: str) -> Payload:
    """Return the mapping in a field, or an empty mapping if the field is missing or anything else."""
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}


VOLATILE_FIELDS = ("status",)
"""Fields of pods that change between snapshots and do not influence placement."""
VOLATILE_METADATA = ("creationTimestamp", "uid")
"""Fields of pods' metadata that change between snapshots and do not influence placement."""


class Recorder:
    """A recorder that calls extenders and stores each answer with a hash of the question.

    Unknown answers are not recorded.
    """

    def __init__(self, call: CallExtender) -> None:
        self._call = call
        self.call_count = 0
        self.full_pods: dict[str, PodExtras] = call.full_pods if isinstance(call, WholePods) else {}
        """The pods that are sent with all their annotations and volumes, by ``namespace/name``."""
        self.answers: list[ExtenderAnswer] = []

    def __call__(self, extender: JsonObject, verb: str, payload: JsonObject) -> tuple[int, object]:
        """Call the extender, record its answer, and return HTTP status and body. Raises what ``call`` raises.

        An ExtenderError is recorded as an answer as well.
        """
        question = _build_extender_question(extender, verb, payload)
        question = msgspec.structs.replace(question, whole=question.pod in self.full_pods)
        self.call_count += 1
        try:
            status, body = self._call(extender, verb, payload)
        except ExtenderError as error:
            self.answers.append(msgspec.structs.replace(question, error=str(error)))
            raise
        self.answers.append(msgspec.structs.replace(question, status=status, body=body))
        return status, body

    def write(self, path: str) -> None:
        """Write the recorded answers to a private file. Raises InputError if the file cannot be written."""
        document = ExtenderAnswers(tuple(self.answers))
        write_file(path, [msgspec.json.format(msgspec.json.encode(document), indent=1), b"\n"], private=True)


class RecordedAnswers:
    """Recorded answers, which are replayed for equal questions.

    If all recorded answers to a question are equal, each call gets this answer. Different answers are given once each,
    in the recorded order.
    """

    def __init__(self, answers: Sequence[ExtenderAnswer], name: str) -> None:
        self._name = name
        self.full_pods: Mapping[str, object] = {answer.pod: None for answer in answers if answer.whole}
        """The pods that were sent with all their annotations and volumes, by ``namespace/name``."""
        self._remaining: dict[ExtenderAnswer, list[ExtenderAnswer]] = {}
        """The recorded answers to each question that have not been given yet."""
        for answer in answers:
            self._remaining.setdefault(_get_question(answer), []).append(answer)
        self._constant = {
            question
            for question, recorded in self._remaining.items()
            if all(answer == recorded[0] for answer in recorded)
        }
        """The questions to which all recorded answers are equal."""

    @classmethod
    def read(cls, path: str) -> RecordedAnswers:
        """Read recorded answers from a file. Raises InputError if the file cannot be read or is malformed."""
        documents = read_documents(path)
        if len(documents) != 1 or documents[0].get("kind") != "ExtenderAnswers":
            raise InputError("no ExtenderAnswers", where=path, hint="--record-extenders writes such a file")
        try:
            return cls(convert_builtins(documents[0], ExtenderAnswers).answers, path)
        except msgspec.ValidationError as error:
            raise InputError(str(error), where=path) from None

    def __call__(self, extender: JsonObject, verb: str, payload: JsonObject) -> tuple[int, object]:
        """Return the recorded status and body.

        Raises the recorded ExtenderError, or UnknownAnswerError if there is no answer to the question.
        """
        question = _build_extender_question(extender, verb, payload)
        remaining = self._remaining.get(question, [])
        if not remaining:
            raise UnknownAnswerError(f"were asked a question that {self._name} does not answer")
        answer = remaining[0] if question in self._constant else remaining.pop(0)
        if answer.error:
            raise ExtenderError(answer.error)
        return answer.status, answer.body


def _get_question(answer: ExtenderAnswer) -> ExtenderAnswer:
    """Return the question of a recorded answer, which is an ExtenderAnswer without a result."""
    return msgspec.structs.replace(answer, status=0, body=None, error="", whole=False)


def _build_extender_question(extender: Payload, verb: str, payload: Payload) -> ExtenderAnswer:
    """Build the question of a call, as an ExtenderAnswer without a result.

    The question consists of the extender, the verb, the pod, the nodes, and a hash of the payload.
    """
    metadata = payload["Pod"]["metadata"]
    full_nodes = payload.get("Nodes")
    names = list(payload.get("NodeNames") or ())
    if full_nodes:
        names = list(map(_get_node_name, full_nodes["items"]))
    victims = payload.get("NodeNameToVictims") or payload.get("NodeNameToMetaVictims") or {}
    return ExtenderAnswer(
        extender=strip_url(str(extender.get("urlPrefix", ""))),
        verb=verb,
        pod=f"{metadata.get('namespace', '')}/{metadata.get('name', '')}",
        nodes=tuple(sorted((*names, *victims))),
        question=_hash_payload(payload),
    )


def _get_node_name(node: JsonObject) -> str:
    """Return the name of a node in a payload, or "" if it is missing."""
    metadata = node.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _hash_payload(payload: Payload) -> str:
    """Hash the payload of a call without volatile fields of the pod. The order of nodes does not matter.

    Victims are identified by their UIDs.
    """
    hashed = dict(payload)
    hashed["Pod"] = _drop_volatile_fields(payload["Pod"])
    node_names, nodes = payload.get("NodeNames"), payload.get("Nodes")
    if node_names:
        hashed["NodeNames"] = sorted(node_names)
    if nodes:
        hashed["Nodes"] = sorted(nodes["items"], key=_get_node_name)
    victims_by_node = payload.get("NodeNameToVictims")
    if victims_by_node:
        hashed["NodeNameToVictims"] = {
            node: [[_get_uid(pod) for pod in victims["Pods"]], victims["NumPDBViolations"]]
            for node, victims in victims_by_node.items()
        }
    return hashlib.sha256(msgspec.json.encode(hashed, order="sorted")).hexdigest()[:32]


def _get_uid(pod: Payload) -> str:
    """Return the UID of a pod's document."""
    return str(pod["metadata"]["uid"])


def _drop_volatile_fields(pod: Payload) -> Payload:
    """Return a copy of the pod without the fields that change between snapshots."""
    stable_pod = {key: value for key, value in pod.items() if key not in VOLATILE_FIELDS}
    stable_pod["metadata"] = {key: value for key, value in pod["metadata"].items() if key not in VOLATILE_METADATA}
    return stable_pod
