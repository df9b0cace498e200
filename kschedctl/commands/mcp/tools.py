"""The tools of the MCP server: library functions with JSON Schemas of their arguments, independent of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema

import kschedctl
from kschedctl.api.json_values import Json, JsonObject
from kschedctl.cli.autoscaler_options import require_node_pools
from kschedctl.cluster import Cluster
from kschedctl.commands.audit import SECTIONS
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import Progress
from kschedctl.reports.command import load_command_table
from kschedctl.reports.report import PlainReport

SEARCH_SECONDS = 60.0
"""The time limit for searches in consolidation and sizing, because a client waits for the answer."""
Arguments = Mapping[str, Any]
"""The arguments of a call, validated against the tool's schema."""


@dataclass(frozen=True)
class ToolCall:
    """The context of a tool call."""

    cluster: Cluster
    now: str
    """The cluster's current time (RFC 3339)."""
    progress: Progress
    """Receives progress reports."""


@dataclass(frozen=True)
class Tool:
    """A question that clients can ask."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, JsonObject]
    """Argument -> its JSON Schema."""
    build_report: Callable[[ToolCall, Arguments], PlainReport]
    """Builds the report for a call with arguments."""
    required: Sequence[str] = ()
    """The names of required arguments."""
    command: str = ""
    """The command whose removal also removes the tool; empty if there is none."""

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the arguments. Others are not allowed."""
        properties = dict(self.arguments)
        required = list(self.required)
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def answer(self, call: ToolCall, arguments: Arguments) -> PlainReport:
        """Validate the arguments and build the report.

        Raises UsageError if the arguments do not match the schema, and whatever the library function raises.
        """
        try:
            jsonschema.validate(arguments, self.schema)
        except jsonschema.ValidationError as error:
            raise UsageError(f"{error.json_path}: {error.message}", where=self.name) from None
        return self.build_report(call, arguments)


def _build_text_schema(description: str, **constraints: Json) -> JsonObject:
    """Build the schema of a text argument."""
    return {"type": "string", "description": description, **constraints}


POD = _build_text_schema("A pod of the cluster, as namespace/name.")
MANIFEST: JsonObject = {
    "type": "object",
    "description": "A manifest of a Pod, or of a workload that creates pods, as JSON.",
}
MANIFESTS: JsonObject = {"type": "array", "items": {"type": "object"}, "description": "Manifests, as JSON objects."}
NAMES: JsonObject = {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Names of nodes."}
NAMESPACE = _build_text_schema("Only this namespace. Without it, all namespaces.")
MOST: JsonObject = {"type": "integer", "minimum": 1, "maximum": 100_000, "description": "Try at most this many pods."}
UNIT = _build_text_schema(
    "What to fail, one at a time: nodes, zones or pools.", enum=["node", "zone", "pool"], default="zone"
)
SCENARIO: JsonObject = {"type": "object", "description": "The steps, as in `kschedctl help what-if`."}
OBJECTS: JsonObject = {"type": "array", "items": {"type": "object"}}
GROUPS: JsonObject = {
    **OBJECTS,
    "description": "Node groups: id, min, max, target, nodes, template, as in `kschedctl help scale`.",
}
POOL_LABEL = _build_text_schema("The node label with the name of a node's group.")
FLAGS: JsonObject = {"type": "object", "description": "Flags of the Cluster Autoscaler, without dashes."}
OF_GROUPS: Mapping[str, JsonObject] = {"node_groups": GROUPS, "pool_label": POOL_LABEL, "flags": FLAGS}
TYPES: JsonObject = {**OBJECTS, "description": "Instance types, in the format of kwok's instance_types.json."}
SETTINGS: JsonObject = {
    "type": "object",
    "description": "preferencePolicy, minValuesPolicy, maxInstanceTypes, featureGates.",
}
KEEP_ZONES: JsonObject = {
    "type": "boolean",
    "description": "Remove a node only if losing a zone costs no more pods than it does now.",
}
PERCENT: JsonObject = {"type": "number", "minimum": 0, "exclusiveMaximum": 100}
SECTION: JsonObject = {"type": "array", "items": {"type": "string", "enum": list(SECTIONS)}}


def explain_pod(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Explain a pod of the cluster or of a manifest, with fixes."""
    pod = get_exclusive_argument(arguments, "pod", "manifest")
    return kschedctl.explain(call.cluster, pod, remedies=True, now=call.now, as_written=True)


def find_remedies(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Find fixes for a pod in the cluster or in a manifest."""
    from kschedctl.commands.explain.one_pod import find_or_create_target  # noqa: PLC0415 - as the commands below
    from kschedctl.commands.remedies import find_remedies_with_room  # noqa: PLC0415

    pod = find_or_create_target(call.cluster, get_exclusive_argument(arguments, "pod", "manifest"))
    return find_remedies_with_room(pod, progress=call.progress, now=call.now)


def clear_pending_pods(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Find the changes that let the most pending pods schedule."""
    namespace = str(arguments.get("namespace", ""))
    return kschedctl.pending_remedies(call.cluster, namespace, now=call.now, progress=call.progress)


def get_exclusive_argument(arguments: Arguments, *names: str) -> Any:
    """Return the value of the one argument among `names` that was given.

    Raises UsageError unless exactly one of them was given.
    """
    values = [arguments[name] for name in names if name in arguments]
    if len(values) != 1:
        raise UsageError(f"give one of {' and '.join(names)}")
    return values[0]


def simulate_apply(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Simulate applying manifests."""
    return kschedctl.simulate(
        call.cluster,
        arguments["manifests"],
        rollout=bool(arguments.get("rollout")),
        pending=bool(arguments.get("pending")),
        progress=call.progress,
    )


def scale_up(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Replay the Cluster Autoscaler's next scale-up."""
    groups, flags = arguments.get("node_groups") or (), arguments.get("flags")
    pool_label = arguments.get("pool_label", "")
    return kschedctl.scale_up(call.cluster, groups, flags, pool_label=pool_label, now=call.now)


def scale_down(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Replay the Cluster Autoscaler's next scale-down."""
    groups, flags = arguments.get("node_groups") or (), arguments.get("flags")
    pool_label = arguments.get("pool_label", "")
    return kschedctl.scale_down(call.cluster, groups, flags, pool_label=pool_label, now=call.now)


def provision_nodes(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Replay Karpenter's next provisioning round. Raises UsageError if the cluster has no NodePools."""
    require_node_pools(call.cluster)
    return kschedctl.provision(call.cluster, arguments.get("instance_types"), arguments.get("settings"), now=call.now)


def disrupt_nodes(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Replay Karpenter's next disruption round. Raises UsageError if the cluster has no NodePools."""
    require_node_pools(call.cluster)
    return kschedctl.disrupt(call.cluster, arguments["instance_types"], arguments.get("settings"), now=call.now)


def consolidate_nodes(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Plan which nodes can be removed."""
    from kschedctl.commands.consolidate.plan import ConsolidationCriteria  # noqa: PLC0415 - the command can be deleted

    criteria = ConsolidationCriteria(
        keep_zone_loss=bool(arguments.get("keep_zone_loss")),
        headroom=float(arguments.get("headroom_percent", 0)),
        pool=str(arguments.get("pool", "")),
        seconds=SEARCH_SECONDS,
    )
    return kschedctl.consolidate(call.cluster, criteria, progress=call.progress)


def rebalance_pods(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Replay the descheduler."""
    return kschedctl.rebalance(call.cluster, arguments.get("policy"), now=call.now, progress=call.progress)


def size_nodes(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Find the cheapest set of nodes for all workloads."""
    from kschedctl.commands.size.sizing import SizingCriteria  # noqa: PLC0415 - the command can be deleted

    criteria = SizingCriteria(
        by_nodes=bool(arguments.get("by_nodes")),
        keep_zone_loss=bool(arguments.get("keep_zone_loss")),
        scale=float(arguments.get("scale", 1)),
        seconds=SEARCH_SECONDS,
    )
    types, manifests = arguments.get("instance_types") or (), arguments.get("manifests") or ()
    return kschedctl.size(call.cluster, manifests, criteria, instance_types=types, progress=call.progress)


def make_room(call: ToolCall, arguments: Arguments) -> PlainReport:
    """Find the fewest pods to move so that a pod fits."""
    return kschedctl.make_room(call.cluster, get_exclusive_argument(arguments, "pod", "manifests"))


_DECLARED_TOOLS = (
    Tool(
        "explain_pod",
        "Why is this pod Pending?",
        "Replays kube-scheduler for one pod of the cluster, or for a manifest that is not in it: the scheduler's own "
        "message, what rejects which nodes, the closest nodes, and the smallest verified fixes.",
        arguments={"pod": POD, "manifest": MANIFEST},
        build_report=explain_pod,
        command="explain",
    ),
    Tool(
        "list_pending_pods",
        "Which pods are Pending, and why?",
        "All pods that wait for a node, grouped by cause, and workloads whose pods could not be created.",
        arguments={"namespace": NAMESPACE},
        build_report=lambda call, arguments: kschedctl.pending(
            call.cluster, str(arguments.get("namespace", "")), now=call.now
        ),
        command="explain",
    ),
    Tool(
        "find_remedies",
        "Which changes would let this pod schedule?",
        "Every minimal set of changes, each verified by replay. Nothing is executed.",
        arguments={"pod": POD, "manifest": MANIFEST},
        build_report=find_remedies,
        command="remedies",
    ),
    Tool(
        "clear_pending_pods",
        "Which few changes would clear most of what is Pending?",
        "The changes that let the most waiting pods schedule, each verified by replay. Nothing is executed.",
        arguments={"namespace": NAMESPACE},
        build_report=clear_pending_pods,
        command="remedies",
    ),
    Tool(
        "what_wakes_pod",
        "What makes the scheduler retry this pod?",
        "The events that make the scheduler retry a rejected pod, by the plugins that rejected it.",
        arguments={"pod": POD},
        build_report=lambda call, arguments: kschedctl.wake_ups(call.cluster, str(arguments["pod"])),
        required=("pod",),
        command="wakes",
    ),
    Tool(
        "changes_that_wake",
        "Does the scheduler retry waiting pods after these changes?",
        "Which waiting pods would be retried after each of these changes, or whether one pod would. A change is an "
        "object as it would be applied, or an event {action: Add|Update|Delete, old, new}.",
        arguments={"changes": {**OBJECTS, "minItems": 1, "description": "Objects or events, as JSON."}, "pod": POD},
        build_report=lambda call, arguments: kschedctl.wakes_by(
            call.cluster, arguments["changes"], [arguments["pod"]] if "pod" in arguments else ()
        ),
        required=("changes",),
        command="wakes",
    ),
    Tool(
        "simulate_apply",
        "Is this safe to deploy? Where would its pods go?",
        "Applies manifests to a copy of the cluster: where their pods go, which stay Pending, and which pods they "
        "evict. rollout: replace the pods of existing workloads, as their controllers do; pending: also schedule "
        "waiting pods.",
        arguments={"manifests": MANIFESTS, "rollout": {"type": "boolean"}, "pending": {"type": "boolean"}},
        build_report=simulate_apply,
        required=("manifests",),
        command="simulate",
    ),
    Tool(
        "capacity_left",
        "How many more of these pods fit?",
        "For each manifest on its own: how many pods fit, and what stops the next one.",
        arguments={"manifests": MANIFESTS, "most": MOST},
        build_report=lambda call, arguments: kschedctl.capacity(
            call.cluster, arguments["manifests"], most=arguments.get("most"), progress=call.progress
        ),
        required=("manifests",),
        command="capacity",
    ),
    Tool(
        "simulate_drain",
        "Can these nodes be drained?",
        "Where the pods of the nodes would go, and what blocks the drain. No node is drained.",
        arguments={"nodes": NAMES},
        build_report=lambda call, arguments: kschedctl.drain(call.cluster, arguments["nodes"], progress=call.progress),
        required=("nodes",),
        command="drain",
    ),
    Tool(
        "simulate_failures",
        "What would no longer fit if a node, a zone or a pool were lost?",
        "Simulates the loss of each in turn, and lists the worst first.",
        arguments={"unit": UNIT},
        build_report=lambda call, arguments: kschedctl.failures(
            call.cluster, str(arguments.get("unit", "zone")), progress=call.progress
        ),
        command="failures",
    ),
    Tool(
        "simulate_changes",
        "What would these changes to the cluster do to its pods?",
        "Takes the steps of a scenario (cordon, taint, label, addNodes, removeNodes, drain, scale, …) on a copy of the "
        "cluster.",
        arguments={"scenario": SCENARIO},
        build_report=lambda call, arguments: kschedctl.whatif(
            call.cluster, arguments["scenario"], progress=call.progress
        ),
        required=("scenario",),
        command="whatif",
    ),
    Tool(
        "check_manifest",
        "Would the API server create this?",
        "Replays admission: whether the manifest is denied, and how defaults, LimitRanges and classes change it.",
        arguments={"manifest": MANIFEST},
        build_report=lambda call, arguments: kschedctl.admit(call.cluster, arguments["manifest"]),
        required=("manifest",),
    ),
    Tool(
        "lint_cluster",
        "What in the cluster breaks scheduling?",
        "Applies lint's rules to all objects of the cluster that matter for scheduling.",
        arguments={},
        build_report=lambda call, arguments: kschedctl.lint(cluster=call.cluster),
        command="lint",
    ),
    Tool(
        "audit_cluster",
        "Is the cluster scheduled well?",
        "An audit in sections. Each is sound, has findings with what to do about them, or is unknown for lack of data.",
        arguments={"sections": SECTION},
        build_report=lambda call, arguments: kschedctl.audit(
            call.cluster, arguments.get("sections") or (), now=call.now, progress=call.progress
        ),
        command="audit",
    ),
    Tool(
        "list_node_pools",
        "Which node pools are there, and what is free on their nodes?",
        "Node pools with their shapes, zones, taints and free resources.",
        arguments={},
        build_report=lambda call, arguments: kschedctl.pools(call.cluster, now=call.now),
        command="pools",
    ),
    Tool(
        "make_room",
        "Which pods have to move so that this one fits?",
        "The fewest moves within disruption budgets, each replayed, with the node where each pod goes.",
        arguments={"pod": POD, "manifests": MANIFESTS},
        build_report=make_room,
        command="make-room",
    ),
    Tool(
        "consolidate_nodes",
        "Which nodes could be removed such that all pods still get a node?",
        "Drains one node after another on a copy of the cluster, and says why the other nodes must stay. "
        "Independent of any autoscaler.",
        arguments={
            "pool": _build_text_schema("Only nodes of this node pool."),
            "headroom_percent": {**PERCENT, "description": "Keep this much CPU and memory free."},
            "keep_zone_loss": KEEP_ZONES,
        },
        build_report=consolidate_nodes,
        command="consolidate",
    ),
    Tool(
        "size_nodes",
        "Which nodes would you need if you built the cluster from scratch?",
        "The cheapest set of nodes for all pods, or the smallest if prices are unknown, and a lower bound. Without "
        "instance_types, it uses nodes like those of the cluster's pools.",
        arguments={
            "manifests": MANIFESTS,
            "instance_types": TYPES,
            "scale": {"type": "number", "minimum": 1, "description": "Multiply each workload's pods by this factor."},
            "keep_zone_loss": KEEP_ZONES,
            "by_nodes": {"type": "boolean", "description": "Find the fewest nodes instead of the cheapest."},
        },
        build_report=size_nodes,
        command="size",
    ),
    Tool(
        "rebalance_pods",
        "What would the descheduler evict?",
        "Replays its rounds: where each evicted pod goes, whether evictions loop, and which budgets stop them. Without "
        "a policy, it restores what the pods' own constraints ask for.",
        arguments={"policy": {"type": "object", "description": "A DeschedulerPolicy of descheduler/v1alpha2."}},
        build_report=rebalance_pods,
        command="rebalance",
    ),
    Tool(
        "scale_up",
        "Which nodes would the Cluster Autoscaler add?",
        "Replays its next loop: which groups grow for pending pods, and why the others do not.",
        arguments=OF_GROUPS,
        build_report=scale_up,
        command="scale",
    ),
    Tool(
        "scale_down",
        "Which nodes would the Cluster Autoscaler remove?",
        "Replays its next loop: which nodes are removed, and why the others stay.",
        arguments=OF_GROUPS,
        build_report=scale_down,
        command="scale",
    ),
    Tool(
        "provision_nodes",
        "Which nodes would Karpenter launch?",
        "Replays its next round: the NodeClaims for pending pods, and why other pods get none. Without "
        "instance_types, it uses the types of the existing nodes.",
        arguments={"instance_types": TYPES, "settings": SETTINGS},
        build_report=provision_nodes,
        command="provision",
    ),
    Tool(
        "disrupt_nodes",
        "Which nodes would Karpenter remove or replace?",
        "Replays its next round: consolidation, drift and expiry within budgets, and what keeps each other node.",
        arguments={"instance_types": TYPES, "settings": SETTINGS},
        build_report=disrupt_nodes,
        required=("instance_types",),
        command="provision",
    ),
)
_COMMANDS = {"", *(command.name for command in load_command_table())}
TOOLS = tuple(tool for tool in _DECLARED_TOOLS if tool.command in _COMMANDS)
"""The tools in the order in which they are listed."""
