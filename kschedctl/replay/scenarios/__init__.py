"""Scenario documents of what-if questions, validated by their JSON Schema, with errors that name the step.

The module `steps` has one function for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, KschedctlError, UsageError
from kschedctl.replay import edits as node_edits
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.edits import change_pods, recreate_pod_with_current_priority
from kschedctl.reports import scenario as parts
from kschedctl.reports.scenario import (
    ApplyManifests,
    Configure,
    InstanceTypes,
    Part,
    Scenario,
    Step,
    build_scenario_schema,
)
from kschedctl.text.counts import agreeing, join_words

FileReader = Callable[[str], Iterable[JsonObject]]
"""A function that reads the documents of a file that a scenario names."""


@dataclass
class StepResult:
    """The cluster after a scenario step."""

    cluster: Cluster
    """The cluster with all changes except those of pods."""
    changed_pods: dict[tuple[str, str], Pod | None] = field(default_factory=dict)
    """Pods that changed by (namespace, name); None for those that are gone."""
    notes: list[str] = field(default_factory=list)
    """Notes for users about the step."""
    recreated: list[Pod] = field(default_factory=list)
    """The pods that lost their node by the step and that controllers recreate."""
    ending_count: int = 0
    """The number of DaemonSet and static pods that end with their nodes."""
    workload: Struct | None = None
    """The manifest from which the new pods of a scaled workload were created, or None if they are copies."""

    @property
    def resulting_cluster(self) -> Cluster:
        """The cluster with all changes."""
        return change_pods(self.cluster, self.changed_pods)

    def find_leaving_pods(self, before: Cluster) -> list[Pod]:
        """Return the pods that leave the cluster, because they are gone or recreated."""
        pairs = ((before.pod(*key), pod) for key, pod in self.changed_pods.items())
        return [old for old, new in pairs if old is not None and (new is None or _is_pod_replacement(old, new))]

    def find_arriving_pods(self, before: Cluster) -> list[Pod]:
        """Return the pods that controllers create, because they are new or recreated."""
        pairs = ((before.pod(*key), pod) for key, pod in self.changed_pods.items())
        return [new for old, new in pairs if new is not None and (old is None or _is_pod_replacement(old, new))]

    def change_pod(self, pod: Pod, new_pod: Pod | None) -> None:
        """Record that a pod is replaced by ``new_pod``, or that it is deleted if ``new_pod`` is None."""
        self.changed_pods[pod.metadata.namespace, pod.metadata.name] = new_pod

    def displace_pods(self, pods: Iterable[Pod]) -> None:
        """Take pods off their nodes, and record those that controllers recreate. The others are gone.

        All pods of a Job that fails because its pods were evicted are gone as well. Pods of DaemonSets and static pods
        are counted as ending with their nodes.
        """
        job_failures = JobFailures.of_cluster(self.cluster)
        for pod in pods:
            kind = find_owner(pod).kind
            if kind in ("DaemonSet", "Node"):
                self.ending_count += 1
            is_recreated = job_failures.record_eviction(pod) and kind != "DaemonSet"
            replacement = recreate_pod_with_current_priority(pod, self.cluster) if is_recreated else None
            self.change_pod(pod, replacement)
            if replacement is not None and kind != "Node":
                self.recreated.append(pod)
        for pod in job_failures.list_pods_of_failed_jobs(self.cluster):
            self.change_pod(pod, None)
        self.recreated = [pod for pod in self.recreated if self.changed_pods[pod.metadata.namespace, pod.metadata.name]]
        if changed_jobs := job_failures.list_changed_jobs():
            self.cluster = self.cluster.with_objects({"Job": changed_jobs})


def _is_pod_replacement(old: Pod, new: Pod) -> bool:
    """Return whether the new pod replaces the old one, rather than being an edit of it.

    A replacement has no node, although the old pod had one.
    """
    return bool(old.spec.node_name) and not new.spec.node_name


def find_step_nodes(cluster: Cluster, part: parts.SomeNodes) -> list[str]:
    """Return the names of the nodes that a step applies to.

    Raises UsageError if there are none, or if a named node does not exist.
    """
    return node_edits.find_node_names(cluster, part.nodes, part.selector)


STEPS = Step.__struct_encode_fields__
MAX_STEPS = 500
SCHEMA_MESSAGES = {
    "minProperties": "the step is empty",
    "maxProperties": "contains more than one step; write each step as its own list item",
}
"""JSON Schema keyword -> what its violation means."""


def load_scenario(document: JsonObject, where: str = "") -> Scenario:
    """Decode a scenario document. Raises InputError that names the step and the field.

    ``where`` names the document in errors. A document with more than MAX_STEPS steps is also an error.
    """
    steps = document.get("steps") if isinstance(document, Mapping) else None
    if isinstance(steps, list | tuple) and len(steps) > MAX_STEPS:
        message = f"steps: {len(steps):,} steps are too many; at most {MAX_STEPS:,} can be replayed"
        raise InputError(message, where=where, hint="combine steps: one step can change many nodes and pods")
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes longer to load than most answers
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    error = best_match(Draft202012Validator(build_scenario_schema()).iter_errors(document))
    if error is not None:
        path = list(error.absolute_path)
        is_step = len(path) == 2  # ["steps", number]
        message = _add_step_and_field_to_message(_describe_schema_error(error, is_step), path, document)
        raise InputError(message, where=where, hint="kschedctl help what-if shows an example of each step")
    scenario: Scenario = convert_builtins(document, Scenario)
    return scenario


def _describe_schema_error(error: Any, is_step: bool) -> str:
    """Describe a JSON Schema error in a scenario.

    ``is_step`` says whether the error is about a whole step, in which case a field that the schema lacks is an unknown
    step.
    """
    if error.validator == "anyOf":
        kinds = " or ".join(str(choice.get("type")) for choice in error.validator_value)
        return f"{error.instance!r} is not of type {kinds}"
    if error.validator == "additionalProperties" and is_step:
        return f"unknown step; the steps are {', '.join(STEPS)}"
    if error.validator == "additionalProperties":
        known_fields = list(error.schema.get("properties", {}))
        unknown_fields = sorted(set(error.instance) - set(known_fields))
        noun = agreeing(len(unknown_fields), "field", "fields")
        return f"unknown {noun} {', '.join(unknown_fields)}; known are {', '.join(known_fields)}"
    if error.validator == "required":
        missing_fields = [field for field in error.validator_value if field not in error.instance]
        known_fields = list(error.schema.get("properties", {}))
        verb = agreeing(len(missing_fields), "is", "are")
        return f"{join_words(missing_fields)} {verb} missing; the fields are {', '.join(known_fields)}"
    if error.validator == "type" and error.schema.get("properties"):
        return f"{error.message} with the fields {', '.join(error.schema['properties'])}"
    return str(SCHEMA_MESSAGES.get(str(error.validator), error.message))


def _add_step_and_field_to_message(message: str, path: list[str | int], document: JsonObject) -> str:
    """Prefix the message with its step and field, as in ``step 2 (drain), nodes[0]: 5 is not of type 'string'``.

    ``path`` leads to the fault: "steps", the index of the step, its name, and the field. An error outside of the steps
    gets only its path.
    """
    if len(path) < 2:
        return f"{'.'.join(map(str, path))}: {message}" if path else message
    _, index, *path_in_step = path
    step = f"step {int(index) + 1}"
    step_names = list(object_at(document, "steps", int(index)))  # a valid step is an object with its name as only key
    if step_names:
        step += f" ({step_names[0]})"
    field = _format_field(path_in_step[1:])  # without the step's name
    return f"{step}, {field}: {message}" if field else f"{step}: {message}"


def _format_field(path: Iterable[str | int]) -> str:
    """Format the path to a field, as in ``nodes[0].name``, or return "" for an empty path."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".")


def get_step_name_and_parameters(step: Step) -> tuple[str, Part]:
    """Return the name of the step in the document, and its parameters. Raises InputError for an empty step."""
    # A step has a field for each kind of step, of which only one is set
    for name, attribute in zip(STEPS, step.__struct_fields__, strict=True):
        part: Part | None = getattr(step, attribute)
        if part is not None:
            return name, part
    raise InputError("a step is empty")


def reject_file(name: str) -> Sequence[JsonObject]:
    """Raise UsageError, for scenarios that come without files."""
    raise UsageError(f'file "{name}" cannot be read here', hint="put its documents into the scenario")


def read_step_files(scenario: Scenario, read: FileReader, where: str = "") -> dict[str, Sequence[JsonObject]]:
    """Read the documents of all files that the steps name, and return them by file.

    ``where`` names the scenario in errors. Raises UsageError that names the step if a file cannot be read.
    """
    files: dict[str, Sequence[JsonObject]] = {}
    for number, (name, part) in enumerate(map(get_step_name_and_parameters, scenario.steps), 1):
        file_names: Sequence[str] = ()
        if isinstance(part, ApplyManifests | InstanceTypes):
            file_names = part.files
        elif isinstance(part, Configure) and part.file:
            file_names = [part.file]
        try:
            for file in file_names:
                files[file] = list(read(file))
        except KschedctlError as error:
            raise add_step_to_error(error, number, name, where) from None
    return files


def add_step_to_error(error: KschedctlError, number: int, name: str, where: str = "") -> UsageError:
    """Return the error as a UsageError that names the scenario's file and the step's number and name.

    The errors in its ``also`` are converted in the same manner.
    """
    step = f"step {number} ({name})"
    usage_error = UsageError(str(error), where=f"{where}: {step}" if where else step)
    usage_error.also = tuple(add_step_to_error(other, number, name, where) for other in error.also)
    return usage_error
