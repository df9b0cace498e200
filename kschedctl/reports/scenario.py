"""The steps of a what-if scenario, as users write them: apiVersion kschedctl.dev/v1, kind Scenario."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kschedctl.api.json_values import JsonDict
from kschedctl.text.counts import first_few

Positive = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


class Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of all parts of a scenario: camelCase, without unknown fields."""

    @property
    def subject(self) -> str:
        """The objects that the step is about, in a few words."""
        return ""


class SomeNodes(Part, frozen=True):
    """Nodes by name, by label selector, or both."""

    nodes: tuple[Name, ...] = ()
    selector: str = ""

    @property
    def subject(self) -> str:
        """The names of the nodes, followed by the selector."""
        parts = [first_few(self.nodes)] if self.nodes else []
        return " and ".join([*parts, *([f"nodes with {self.selector}"] if self.selector else ())])


class LostNodes(SomeNodes, frozen=True):
    """Nodes that fail, also selected by zone or by pool."""

    zone: str = ""
    pool: str = ""

    @property
    def subject(self) -> str:
        """The zone, the pool, and the nodes."""
        groups = [f"{kind} {name}" for kind, name in (("zone", self.zone), ("pool", self.pool)) if name]
        nodes = SomeNodes(self.nodes, self.selector).subject
        return " and ".join([*groups, *([nodes] if nodes else ())])


class TaintPart(Part, frozen=True):
    """A taint to add or remove."""

    key: Name
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""

    @property
    def text(self) -> str:
        """The taint as kubectl writes it, such as `dedicated=db:NoSchedule`."""
        value = f"={self.value}" if self.value else ""
        effect = f":{self.effect}" if self.effect else ""
        return f"{self.key}{value}{effect}"


class TaintNodes(SomeNodes, frozen=True):
    """Taints to add to nodes and to remove from them."""

    add: tuple[TaintPart, ...] = ()
    remove: tuple[TaintPart, ...] = ()
    """The taints to remove: all of a key, or only those with the given effect."""

    @property
    def subject(self) -> str:
        """The nodes, and the taints to add and to remove."""
        nodes = SomeNodes(self.nodes, self.selector).subject
        changes = (("add", self.add), ("remove", self.remove))
        texts = [f"{verb} {', '.join(taint.text for taint in taints)}" for verb, taints in changes if taints]
        return f"{nodes}: {'; '.join(texts)}"


class LabelNodes(SomeNodes, frozen=True, kw_only=True):
    """Labels to set on nodes; null removes a label."""

    labels: dict[str, str | None]


class AddNodes(Part, frozen=True, kw_only=True):
    """New nodes, named `name`-0, `name`-1 and so on."""

    count: Positive = 1
    like: str = ""
    """The existing node to copy."""
    template: JsonDict | None = None
    """The Node to copy."""
    name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels to add."""

    @property
    def subject(self) -> str:
        """The number of nodes, and the node that is copied."""
        return f"{self.count:,} like {self.like}" if self.like else f"{self.count:,}"


class NamedWorkload(Part, frozen=True, kw_only=True):
    """A workload that has pods in the cluster."""

    kind: Literal["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "Job", "Pod"] = (
        "Deployment"
    )
    namespace: Name = "default"
    name: Name

    @property
    def subject(self) -> str:
        """The workload, such as `Deployment shop/web`."""
        return f"{self.kind} {self.namespace}/{self.name}"


class ScaleWorkload(NamedWorkload, frozen=True, kw_only=True):
    """A workload and its new number of pods."""

    replicas: Annotated[int, msgspec.Meta(ge=0, le=150_000)]

    @property
    def subject(self) -> str:
        """The workload and its new number of pods."""
        return f"{super().subject} to {self.replicas:,}"


class ApplyManifests(Part, frozen=True):
    """Manifests, from files beside the scenario or written in it."""

    files: tuple[Name, ...] = ()
    manifests: tuple[JsonDict, ...] = ()
    rollout: bool = False

    @property
    def subject(self) -> str:
        """The first few of the files and manifests, such as `web.yaml, Service web`."""
        titles = []
        for manifest in self.manifests:
            metadata = manifest.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            titles.append(f"{manifest.get('kind', '')} {name}".strip())
        return first_few([*self.files, *titles])


class SetPriorityClass(Part, frozen=True, kw_only=True):
    """A PriorityClass to create, or to change if a value is given.

    Other pods keep the priority that they were created with.
    """

    name: Name
    value: int | None = None
    global_default: bool = False
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    workloads: tuple[NamedWorkload, ...] = ()
    """The workloads whose pods get this class."""

    @property
    def subject(self) -> str:
        """The name of the class, its value, and the workloads."""
        value = "" if self.value is None else f" {self.value:,}"
        workloads = first_few([workload.subject for workload in self.workloads])
        return f"{self.name}{value} for {workloads}" if workloads else f"{self.name}{value}"


class Configure(Part, frozen=True):
    """A KubeSchedulerConfiguration, from a file beside the scenario or written in it."""

    file: str = ""
    configuration: JsonDict | None = None

    @property
    def subject(self) -> str:
        """The name of the file."""
        return self.file


class EditNodePool(Part, frozen=True, kw_only=True):
    """A NodePool of Karpenter, with a merge patch of its spec; null removes a field."""

    name: Name
    spec: JsonDict

    @property
    def subject(self) -> str:
        """The name of the NodePool."""
        return self.name


class InstanceTypes(Part, frozen=True):
    """Instance types from which Karpenter launches nodes for the pending pods, once."""

    files: tuple[Name, ...] = ()
    types: tuple[JsonDict, ...] = ()
    """The types in the form of kwok's instance_types.json."""
    settings: JsonDict = msgspec.field(default_factory=dict)
    """Karpenter's settings, such as preferencePolicy."""

    @property
    def subject(self) -> str:
        """The names of the files."""
        return first_few(self.files)


EXPLAINED_UNPLACED = 5
"""The number of unplaced pods whose reasons are reported."""


class Step(Part, frozen=True):
    """A step of a scenario. Exactly one field is set."""

    cordon: SomeNodes | None = None
    uncordon: SomeNodes | None = None
    taint: TaintNodes | None = None
    label: LabelNodes | None = None
    add_nodes: AddNodes | None = None
    remove_nodes: SomeNodes | None = None
    scale: ScaleWorkload | None = None
    apply: ApplyManifests | None = None
    priority_class: SetPriorityClass | None = None
    configure: Configure | None = None
    drain: SomeNodes | None = None
    fail: LostNodes | None = None
    node_pool: EditNodePool | None = None
    instance_types: InstanceTypes | None = None


class Scenario(Part, frozen=True, kw_only=True):
    """The steps of a what-if question."""

    api_version: Literal["kschedctl.dev/v1"] = "kschedctl.dev/v1"
    kind: Literal["Scenario"] = "Scenario"
    name: str = ""
    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]


def build_scenario_schema() -> JsonDict:
    """Build the JSON Schema of a Scenario, in which a step has exactly one field."""
    schema: JsonDict = msgspec.json.schema(Scenario)
    step = schema["$defs"]["Step"]
    step |= {"minProperties": 1, "maxProperties": 1}
    properties = step["properties"]
    for name, prop in properties.items():  # either a struct or null, which a user does not write
        properties[name] = next(choice for choice in prop["anyOf"] if "$ref" in choice)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
