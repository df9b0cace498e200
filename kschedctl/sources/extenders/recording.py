"""What extenders answered: recorded while they are asked, and given again to the same questions later."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.errors import InputError
from kschedctl.reports.extender_answers import ExtenderAnswer, ExtenderAnswers
from kschedctl.scheduler.engine.extenders.answers import ExtenderError
from kschedctl.scheduler.engine.extenders.extender import CallExtender, UnknownAnswerError
from kschedctl.sources.extenders.whole_pods import Payload, PodExtras, WholePods
from kschedctl.sources.output_file import write_file
from kschedctl.sources.read import read_documents
from kschedctl.text.urls import strip_url

PASSING = ("status",)
"""Fields of objects that change with each look and decide nothing about where a pod fits, but for a node's."""
PASSING_METADATA = ("creationTimestamp", "uid")


class Recorder:
    """Asks through ``call`` and keeps what is answered, of what was asked a hash; what nobody heard is not kept.

    ``asked``: how often it did.
    """

    def __init__(self, call: CallExtender) -> None:
        self._call, self.asked = call, 0
        self.full_pods: dict[str, PodExtras] = call.full_pods if isinstance(call, WholePods) else {}
        self.answers: list[ExtenderAnswer] = []

    def __call__(self, extender: JsonObject, verb: str, payload: JsonObject) -> tuple[int, object]:
        """Raises what ``call`` raises."""
        asked = _question(extender, verb, payload)
        asked = msgspec.structs.replace(asked, whole=asked.pod in self.full_pods)
        self.asked += 1
        try:
            status, body = self._call(extender, verb, payload)
        except ExtenderError as error:
            self.answers.append(msgspec.structs.replace(asked, error=str(error)))
            raise
        self.answers.append(msgspec.structs.replace(asked, status=status, body=body))
        return status, body

    def write(self, path: str) -> None:
        """Raises InputError."""
        document = ExtenderAnswers(tuple(self.answers))
        write_file(path, [msgspec.json.format(msgspec.json.encode(document), indent=1), b"\n"], private=True)


class RecordedAnswers:
    """Answers as they were given. A question that was always answered alike has that answer as often as it is asked;
    one with several answers has each of them once, in order.
    """

    def __init__(self, answers: Sequence[ExtenderAnswer], name: str) -> None:
        self._name = name
        self.full_pods: Mapping[str, object] = {answer.pod: None for answer in answers if answer.whole}
        self._left: dict[ExtenderAnswer, list[ExtenderAnswer]] = {}
        for answer in answers:
            self._left.setdefault(_unanswered(answer), []).append(answer)
        self._always = {asked for asked, given in self._left.items() if all(answer == given[0] for answer in given)}

    @classmethod
    def read(cls, path: str) -> RecordedAnswers:
        """Raises InputError."""
        documents = read_documents(path)
        if len(documents) != 1 or documents[0].get("kind") != "ExtenderAnswers":
            raise InputError("no ExtenderAnswers", where=path, hint="--record-extenders writes such a file")
        try:
            return cls(convert_builtins(documents[0], ExtenderAnswers).answers, path)
        except msgspec.ValidationError as error:
            raise InputError(str(error), where=path) from None

    def __call__(self, extender: JsonObject, verb: str, payload: JsonObject) -> tuple[int, object]:
        """Raises ExtenderError as it was, UnknownAnswerError where there is no answer."""
        asked = _question(extender, verb, payload)
        left = self._left.get(asked, [])
        if not left:
            raise UnknownAnswerError(f"were asked what {self._name} has no answer to")
        answer = left[0] if asked in self._always else left.pop(0)
        if answer.error:
            raise ExtenderError(answer.error)
        return answer.status, answer.body


def _unanswered(answer: ExtenderAnswer) -> ExtenderAnswer:
    return msgspec.structs.replace(answer, status=0, body=None, error="", whole=False)


def _question(extender: Payload, verb: str, payload: Payload) -> ExtenderAnswer:
    """The answer, but for what is answered."""
    metadata = payload["Pod"]["metadata"]
    whole = payload.get("Nodes")
    names = map(_name, whole["items"]) if whole else payload.get("NodeNames") or ()
    victims = payload.get("NodeNameToVictims") or payload.get("NodeNameToMetaVictims") or {}
    return ExtenderAnswer(
        extender=strip_url(str(extender.get("urlPrefix", ""))),
        verb=verb,
        pod=f"{metadata.get('namespace', '')}/{metadata.get('name', '')}",
        nodes=tuple(sorted((*names, *victims))),
        question=_hash(payload),
    )


def _name(node: JsonObject) -> str:
    """The name of a node as an extender may have returned it, with anything left out."""
    metadata = node.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _hash(payload: Payload) -> str:
    """A digest of the pod and of what is asked about; nodes in any order."""
    asked = dict(payload)
    asked["Pod"] = _lasting(payload["Pod"])
    if payload.get("NodeNames"):
        asked["NodeNames"] = sorted(payload["NodeNames"])
    if payload.get("Nodes"):
        asked["Nodes"] = sorted(payload["Nodes"]["items"], key=_name)
    if payload.get("NodeNameToVictims"):
        victims = payload["NodeNameToVictims"].items()
        asked["NodeNameToVictims"] = {
            node: [[pod["metadata"]["uid"] for pod in victims_there["Pods"]], victims_there["NumPDBViolations"]]
            for node, victims_there in victims
        }
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()[:32]


def _lasting(pod: Payload) -> Payload:
    metadata = {key: value for key, value in pod["metadata"].items() if key not in PASSING_METADATA}
    return {**{key: value for key, value in pod.items() if key not in PASSING}, "metadata": metadata}
