"""Scenario documents: checked against their JSON Schema, with errors that name the step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import Pod
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, KschedctlError, UsageError
from kschedctl.replay import edits as node_edits
from kschedctl.replay.edits import change_pods, is_recreated_elsewhere
from kschedctl.reports import scenario as parts
from kschedctl.reports.scenario import Apply, Configure, InstanceTypes, Part, Scenario, Step, scenario_schema

Files = Callable[[str], Iterable[JsonObject]]
"""Reads the documents of a file that a scenario names."""


@dataclass
class Edit:
    """A cluster with a step taken: ``pods`` that changed, None for those that are gone, and what to know of it.

    ``displaced``: how many pods lost their node by it.
    """

    cluster: Cluster
    pods: dict[tuple[str, str], Pod | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    displaced: int = 0

    @property
    def result(self) -> Cluster:
        return change_pods(self.cluster, self.pods)

    def going(self, before: Cluster) -> list[Pod]:
        """The pods that leave the cluster before the step: those that are gone, and those that somebody makes anew."""
        found = ((before.pod(*key), pod) for key, pod in self.pods.items())
        return [old for old, new in found if old is not None and (new is None or _is_anew(old, new))]

    def coming(self, before: Cluster) -> list[Pod]:
        """The pods that somebody has to create: new ones, and those that are made anew."""
        found = ((before.pod(*key), pod) for key, pod in self.pods.items())
        return [new for old, new in found if new is not None and (old is None or _is_anew(old, new))]

    def change(self, pod: Pod, into: Pod | None) -> None:
        self.pods[pod.metadata.namespace, pod.metadata.name] = into

    def displace(self, pods: Iterable[Pod]) -> None:
        """Take their node from pods; those that nobody makes anew are gone."""
        for pod in pods:
            self.displaced += 1
            self.change(pod, made_again(pod) if is_recreated_elsewhere(pod) else None)


def _is_anew(old: Pod, new: Pod) -> bool:
    """Whether the new one comes in place of the old, which had a node."""
    return bool(old.spec.node_name) and not new.spec.node_name


def chosen_nodes(cluster: Cluster, part: parts.SomeNodes) -> list[str]:
    """The nodes that a step is about. Raises UsageError."""
    return node_edits.find_nodes(cluster, part.nodes, part.selector)


STEPS = Step.__struct_encode_fields__
MOST_STEPS = 500
MESSAGES = {
    "minProperties": "says nothing to do",
    "maxProperties": "is more than one step: each step is an item of its own",
}
"""A keyword of the schema -> what its violation means."""


def load_scenario(document: JsonObject, where: str = "") -> Scenario:
    """The scenario that a document is. Raises InputError that names step and field."""
    steps = document.get("steps") if isinstance(document, Mapping) else None
    if isinstance(steps, list | tuple) and len(steps) > MOST_STEPS:
        what = f"steps: {len(steps):,} steps, of which each is replayed; at most {MOST_STEPS:,} are taken"
        raise InputError(what, where=where, hint="a step can name many nodes and pods")
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes longer to load than most answers
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    error = best_match(Draft202012Validator(scenario_schema()).iter_errors(document))
    if error is not None:
        path = list(error.absolute_path)
        raise InputError(_words(_told(error, len(path) == 2), path, document), where=where)
    scenario: Scenario = convert_builtins(document, Scenario)
    return scenario


def _told(error: Any, of_a_step: bool) -> str:
    """What is wrong by jsonschema's error, in words."""
    if error.validator == "anyOf":
        kinds = " or ".join(str(choice.get("type")) for choice in error.validator_value)
        return f"{error.instance!r} is not of type {kinds}"
    if error.validator == "additionalProperties" and of_a_step:
        return f"no such step; there are {', '.join(STEPS)}"
    return str(MESSAGES.get(str(error.validator), error.message))


def _words(message: str, path: list[str | int], document: JsonObject) -> str:
    """``step 2 (drain), nodes[0]: 5 is not of type 'string'``."""
    if len(path) < 2:
        return f"{'.'.join(map(str, path))}: {message}" if path else message
    number = int(path[1])
    verb = next(iter(object_at(document, "steps", number)), "")
    named = f"step {number + 1} ({verb})" if verb else f"step {number + 1}"
    rest = path[3:] if len(path) > 2 else []
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest).lstrip(".")
    return f"{named}, {field}: {message}" if field else f"{named}: {message}"


def verb(step: Step) -> tuple[str, Part]:
    """What a step does, by its name in the document, and the particulars."""
    for name, attribute in zip(STEPS, step.__struct_fields__, strict=True):
        part: Part | None = getattr(step, attribute)
        if part is not None:
            return name, part
    raise InputError("a step says nothing to do")


def no_files(name: str) -> Sequence[JsonObject]:
    """For scenarios that come without files. Raises UsageError."""
    raise UsageError(f'"{name}" cannot be read here', hint="put its documents into the scenario")


def files_of(scenario: Scenario, read: Files, where: str = "") -> dict[str, Sequence[JsonObject]]:
    """The documents of all files that the steps name. Raises UsageError that names the step."""
    files: dict[str, Sequence[JsonObject]] = {}
    for number, (name, part) in enumerate(map(verb, scenario.steps), 1):
        named = [part.file] if isinstance(part, Configure) and part.file else []
        try:
            for file in part.files if isinstance(part, Apply | InstanceTypes) else named:
                files[file] = list(read(file))
        except KschedctlError as error:
            raise in_step(error, number, name, where) from None
    return files


def in_step(error: KschedctlError, number: int, name: str, where: str = "") -> UsageError:
    """The error, with the number and the name of the step, and the file that the scenario is in."""
    step = f"step {number} ({name})"
    usage_error = UsageError(str(error), where=f"{where}: {step}" if where else step)
    usage_error.also = tuple(in_step(kschedctl_error, number, name, where) for kschedctl_error in error.also)
    return usage_error
