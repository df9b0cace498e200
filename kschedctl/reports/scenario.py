"""What users write to ask "what if": a list of steps. apiVersion kschedctl.dev/v1, kind Scenario.

``kschedctl schema scenario`` prints the JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kschedctl.api.json_values import JsonDict

Positive = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


class Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of all parts: camelCase, and no field but those that are known."""


class SomeNodes(Part, frozen=True):
    """Nodes by name, by a label selector, or both."""

    nodes: tuple[Name, ...] = ()
    selector: str = ""


class Lost(SomeNodes, frozen=True):
    """Nodes that are gone: also those of a ``zone`` or of a ``pool``."""

    zone: str = ""
    pool: str = ""


class TaintPart(Part, frozen=True):
    key: Name
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""


class TaintNodes(SomeNodes, frozen=True):
    """Taints to ``add`` to nodes, and to ``remove``: those of the key, with an effect only those."""

    add: tuple[TaintPart, ...] = ()
    remove: tuple[TaintPart, ...] = ()


class Label(SomeNodes, frozen=True, kw_only=True):
    """Labels to set on nodes; null takes one off."""

    labels: dict[str, str | None]


class AddNodes(Part, frozen=True, kw_only=True):
    """Nodes ``like`` an existing one, or by a ``template``, which is a Node; with these ``labels`` besides.

    They are named ``name``-0, ``name``-1 and so on.
    """

    count: Positive = 1
    like: str = ""
    template: JsonDict | None = None
    name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class NamedWorkload(Part, frozen=True, kw_only=True):
    """A workload that has pods in the cluster."""

    kind: Literal["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "Job", "Pod"] = (
        "Deployment"
    )
    namespace: Name = "default"
    name: Name


class Scale(NamedWorkload, frozen=True, kw_only=True):
    """A workload with so many pods."""

    replicas: Annotated[int, msgspec.Meta(ge=0, le=150_000)]


class Apply(Part, frozen=True):
    """Manifests, from ``files`` beside the scenario or as they stand here."""

    files: tuple[Name, ...] = ()
    manifests: tuple[JsonDict, ...] = ()
    rollout: bool = False


class SetPriorityClass(Part, frozen=True, kw_only=True):
    """A PriorityClass to create or, with a ``value``, to change; the pods of these ``workloads`` come to be in it.

    Other pods keep the priority that they were created with.
    """

    name: Name
    value: int | None = None
    global_default: bool = False
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    workloads: tuple[NamedWorkload, ...] = ()


class Configure(Part, frozen=True):
    """A KubeSchedulerConfiguration, from a ``file`` beside the scenario or as it stands here."""

    file: str = ""
    configuration: JsonDict | None = None


class EditNodePool(Part, frozen=True, kw_only=True):
    """A NodePool of Karpenter's, with a merge patch of its ``spec``; null takes a field out."""

    name: Name
    spec: JsonDict


class InstanceTypes(Part, frozen=True):
    """Instance types of which Karpenter launches nodes for the pods that wait, once.

    From ``files`` beside the scenario or as they stand here, in the form of kwok's instance_types.json; ``settings``:
    Karpenter's, such as preferencePolicy.
    """

    files: tuple[Name, ...] = ()
    types: tuple[JsonDict, ...] = ()
    settings: JsonDict = msgspec.field(default_factory=dict)


MOST_REFUSED = 5
"""Pods that get no node of which it is said why."""


class Step(Part, frozen=True):
    """Just one of these."""

    cordon: SomeNodes | None = None
    uncordon: SomeNodes | None = None
    taint: TaintNodes | None = None
    label: Label | None = None
    add_nodes: AddNodes | None = None
    remove_nodes: SomeNodes | None = None
    scale: Scale | None = None
    apply: Apply | None = None
    priority_class: SetPriorityClass | None = None
    configure: Configure | None = None
    drain: SomeNodes | None = None
    fail: Lost | None = None
    node_pool: EditNodePool | None = None
    instance_types: InstanceTypes | None = None


class Scenario(Part, frozen=True, kw_only=True):
    api_version: Literal["kschedctl.dev/v1"] = "kschedctl.dev/v1"
    kind: Literal["Scenario"] = "Scenario"
    name: str = ""
    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]


def scenario_schema() -> JsonDict:
    """The JSON Schema of a Scenario."""
    schema: JsonDict = msgspec.json.schema(Scenario)
    definitions = schema["$defs"]
    definitions["Step"] |= {"minProperties": 1, "maxProperties": 1}
    for name in definitions["Step"]["properties"]:
        verb = definitions["Step"]["properties"][name]
        definitions["Step"]["properties"][name] = next(choice for choice in verb["anyOf"] if "$ref" in choice)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
