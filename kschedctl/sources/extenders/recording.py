"""Answers of extenders, recorded while they are called and replayed for the same questions later."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.reports.plugin_answers import ExtenderAnswer, ExtenderAnswers
from kschedctl.scheduler.engine.extenders.answers import ExtenderError
from kschedctl.scheduler.engine.extenders.extender import CallExtender, UnknownAnswerError
from kschedctl.sources.extenders.whole_pods import Payload, PodExtras, WholePods
from kschedctl.sources.output_file import write_file
from kschedctl.sources.read import read_documents
from kschedctl.text.printable import strip_url

VOLATILE_FIELDS = ("status",)
"""Fields of pods that change between snapshots and do not influence placement."""
VOLATILE_METADATA = ("creationTimestamp", "uid")


class Recorder:
    """A recorder that calls extenders and stores each answer with a hash of the question.

    Unknown answers are not recorded.
    """

    def __init__(self, call: CallExtender) -> None:
        self._call, self.call_count = call, 0
        self.full_pods: dict[str, PodExtras] = call.full_pods if isinstance(call, WholePods) else {}
        self.answers: list[ExtenderAnswer] = []

    def __call__(self, extender: JsonObject, verb: str, payload: JsonObject) -> tuple[int, object]:
        """Call the extender and record its answer. Raises what ``call`` raises."""
        question = _build_question(extender, verb, payload)
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
        """Write the recorded answers to a private file. Raises InputError."""
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
        self._remaining: dict[ExtenderAnswer, list[ExtenderAnswer]] = {}
        for answer in answers:
            self._remaining.setdefault(_strip_answer(answer), []).append(answer)
        self._constant = {
            question
            for question, recorded in self._remaining.items()
            if all(answer == recorded[0] for answer in recorded)
        }

    @classmethod
    def read(cls, path: str) -> RecordedAnswers:
        """Read recorded answers from a file. Raises InputError."""
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
        question = _build_question(extender, verb, payload)
        remaining = self._remaining.get(question, [])
        if not remaining:
            raise UnknownAnswerError(f"were asked what {self._name} has no answer to")
        answer = remaining[0] if question in self._constant else remaining.pop(0)
        if answer.error:
            raise ExtenderError(answer.error)
        return answer.status, answer.body


def _strip_answer(answer: ExtenderAnswer) -> ExtenderAnswer:
    """Return the question of an answer as an answer without result."""
    return msgspec.structs.replace(answer, status=0, body=None, error="", whole=False)


def _build_question(extender: Payload, verb: str, payload: Payload) -> ExtenderAnswer:
    """Build the question of a call, as an answer without result."""
    metadata = payload["Pod"]["metadata"]
    full_nodes = payload.get("Nodes")
    names = map(_get_node_name, full_nodes["items"]) if full_nodes else payload.get("NodeNames") or ()
    victims = payload.get("NodeNameToVictims") or payload.get("NodeNameToMetaVictims") or {}
    return ExtenderAnswer(
        extender=strip_url(str(extender.get("urlPrefix", ""))),
        verb=verb,
        pod=f"{metadata.get('namespace', '')}/{metadata.get('name', '')}",
        nodes=tuple(sorted((*names, *victims))),
        question=_hash_payload(payload),
    )


def _get_node_name(node: JsonObject) -> str:
    """Return the name of a node in an extender's response, or "" if it is missing."""
    metadata = node.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _hash_payload(payload: Payload) -> str:
    """Hash the pod and the question about it. The order of nodes does not matter."""
    hashed = dict(payload)
    hashed["Pod"] = _drop_volatile_fields(payload["Pod"])
    if payload.get("NodeNames"):
        hashed["NodeNames"] = sorted(payload["NodeNames"])
    if payload.get("Nodes"):
        hashed["Nodes"] = sorted(payload["Nodes"]["items"], key=_get_node_name)
    if payload.get("NodeNameToVictims"):
        victims = payload["NodeNameToVictims"].items()
        hashed["NodeNameToVictims"] = {
            node: [[pod["metadata"]["uid"] for pod in node_victims["Pods"]], node_victims["NumPDBViolations"]]
            for node, node_victims in victims
        }
    return hashlib.sha256(msgspec.json.encode(hashed, order="sorted")).hexdigest()[:32]


def _drop_volatile_fields(pod: Payload) -> Payload:
    """Return the pod without fields that change between snapshots."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in VOLATILE_METADATA}
    return {**{key: value for key, value in pod.items() if key not in VOLATILE_FIELDS}, "metadata": metadata}
