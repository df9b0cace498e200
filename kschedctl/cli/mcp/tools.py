"""The tools: each a function of the library, with the JSON Schema of its arguments. Nothing here knows the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema

from kschedctl.admission.admit import admit
from kschedctl.api.json_values import Json, JsonObject
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.library import autoscalers, node_losses, pods
from kschedctl.library.audit import audit
from kschedctl.library.linting import lint
from kschedctl.library.remedies import remedies_with_room
from kschedctl.library.waking import wake_ups
from kschedctl.reports.summary import Report
from kschedctl.studies.audit.audit import SECTIONS
from kschedctl.studies.basics.parallel import Progress
from kschedctl.studies.capacity import capacity
from kschedctl.studies.explain import as_events
from kschedctl.studies.simulate import simulate
from kschedctl.studies.whatif import whatif

Arguments = Mapping[str, Any]
"""As the client sent them, checked against the schema before anybody reads them."""


@dataclass(frozen=True)
class ToolCall:
    """The cluster at a time (RFC 3339), and what hears how far the answer is."""

    cluster: Cluster
    now: str
    progress: Progress


@dataclass(frozen=True)
class Tool:
    """``arguments``: name -> JSON Schema; those that are ``required``."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, JsonObject]
    ask: Callable[[ToolCall, Arguments], Report]
    required: Sequence[str] = ()

    @property
    def schema(self) -> JsonObject:
        """Of all arguments, as an object with no others."""
        properties = dict(self.arguments)
        required = list(self.required)
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def answer(self, asked: ToolCall, arguments: Arguments) -> Report:
        """Raises UsageError for arguments that the schema does not allow, and what the function raises."""
        try:
            jsonschema.validate(arguments, self.schema)
        except jsonschema.ValidationError as error:
            raise UsageError(f"{error.json_path}: {error.message}", where=self.name) from None
        return self.ask(asked, arguments)


def _text(description: str, **more: Json) -> JsonObject:
    return {"type": "string", "description": description, **more}


POD = _text("A pod of the cluster, as namespace/name.")
MANIFEST: JsonObject = {"type": "object", "description": "A manifest of a Pod or of what makes pods, as JSON."}
MANIFESTS: JsonObject = {"type": "array", "items": {"type": "object"}, "description": "Manifests, as JSON objects."}
NAMES: JsonObject = {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Names of nodes."}
NAMESPACE = _text("Only this namespace; all without it.")
MOST: JsonObject = {"type": "integer", "minimum": 1, "maximum": 100_000, "description": "Try at most this many pods."}
UNIT = _text("What is lost in turn.", enum=["node", "zone", "pool"], default="zone")
SCENARIO: JsonObject = {"type": "object", "description": "steps, in the form of `kschedctl help what-if`."}
SECTION: JsonObject = {"type": "array", "items": {"type": "string", "enum": list(SECTIONS)}}


def _explain(asked: ToolCall, arguments: Arguments) -> Report:
    pod = _one_of(arguments, "pod", "manifest")
    return as_events(pods.explain(asked.cluster, pod, remedies=True, now=asked.now))


def _remedies(asked: ToolCall, arguments: Arguments) -> Report:
    pod = pods.asked_pod(asked.cluster, _one_of(arguments, "pod", "manifest"))
    return remedies_with_room(pod, tried=asked.progress.begin("trying remedies", 0))


def _one_of(arguments: Arguments, *names: str) -> Any:
    """Raises UsageError for none, and for several."""
    given = [arguments[name] for name in names if name in arguments]
    if len(given) != 1:
        raise UsageError(f"give one of {' and '.join(names)}")
    return given[0]


def _simulate(asked: ToolCall, arguments: Arguments) -> Report:
    return simulate(
        asked.cluster,
        arguments["manifests"],
        rollout=bool(arguments.get("rollout")),
        pending=bool(arguments.get("pending")),
        progress=asked.progress,
    )


TOOLS = (
    Tool(
        "explain_pod",
        "Why is this pod Pending?",
        "Replays kube-scheduler for one pod of the cluster, or for a manifest that is not in it: the scheduler's own "
        "message, what refuses which nodes, the closest nodes, and the smallest verified fixes.",
        {"pod": POD, "manifest": MANIFEST},
        _explain,
    ),
    Tool(
        "list_pending_pods",
        "Which pods are Pending, and why?",
        "All pods that wait for a node, grouped by cause, and workloads that lack pods nobody could create.",
        {"namespace": NAMESPACE},
        lambda asked, a: pods.pending(asked.cluster, str(a.get("namespace", "")), now=asked.now),
    ),
    Tool(
        "find_remedies",
        "Which changes would let this pod schedule?",
        "All smallest sets of changes, each verified by replay. Nothing is executed.",
        {"pod": POD, "manifest": MANIFEST},
        _remedies,
    ),
    Tool(
        "what_wakes_pod",
        "What makes the scheduler retry this pod?",
        "The events for which a refused pod waits, by the plugins that refused it.",
        {"pod": POD},
        lambda asked, a: wake_ups(asked.cluster, str(a["pod"])),
        ("pod",),
    ),
    Tool(
        "simulate_apply",
        "Is this safe to deploy? Where would its pods go?",
        "Applies manifests to a copy of the cluster: where their pods go, which stay Pending, and whom they evict. "
        "rollout: replace the pods of workloads that exist, as their controllers do; pending: waiting pods take part.",
        {"manifests": MANIFESTS, "rollout": {"type": "boolean"}, "pending": {"type": "boolean"}},
        _simulate,
        ("manifests",),
    ),
    Tool(
        "capacity_left",
        "How many more of these pods fit?",
        "Each manifest by itself: how many fit, and what stops the next one.",
        {"manifests": MANIFESTS, "most": MOST},
        lambda asked, a: capacity(asked.cluster, a["manifests"], most=a.get("most"), progress=asked.progress),
        ("manifests",),
    ),
    Tool(
        "simulate_drain",
        "Can these nodes be drained?",
        "Where the pods of the nodes would go, and what blocks the drain. No node is drained.",
        {"nodes": NAMES},
        lambda asked, a: node_losses.drain(asked.cluster, a["nodes"], progress=asked.progress),
        ("nodes",),
    ),
    Tool(
        "simulate_failures",
        "What would no longer fit if a node, a zone or a pool were lost?",
        "Loses each in turn, worst first.",
        {"unit": UNIT},
        lambda asked, a: node_losses.failures(asked.cluster, str(a.get("unit", "zone")), progress=asked.progress),
    ),
    Tool(
        "simulate_changes",
        "What would these changes to the cluster do to its pods?",
        "Takes the steps of a scenario (cordon, taint, label, addNodes, removeNodes, drain, scale, …) on a copy.",
        {"scenario": SCENARIO},
        lambda asked, a: whatif(asked.cluster, a["scenario"], progress=asked.progress),
        ("scenario",),
    ),
    Tool(
        "check_manifest",
        "Would the API server create this?",
        "What admission makes of a manifest: refused, or changed by defaults, LimitRanges, quotas, classes.",
        {"manifest": MANIFEST},
        lambda asked, a: admit(asked.cluster, a["manifest"]),
        ("manifest",),
    ),
    Tool(
        "lint_cluster",
        "What in the cluster breaks scheduling?",
        "The rules of lint on all objects of the cluster that scheduling reads.",
        {},
        lambda asked, a: lint(cluster=asked.cluster),
    ),
    Tool(
        "audit_cluster",
        "Is the cluster scheduled well?",
        "Sections, each sound or with findings and what to do.",
        {"sections": SECTION},
        lambda asked, a: audit(asked.cluster, a.get("sections") or (), now=asked.now, progress=asked.progress),
    ),
    Tool(
        "list_node_pools",
        "Which node pools are there, and what have they left?",
        "Node pools with their shapes, zones, taints and free resources.",
        {},
        lambda asked, a: autoscalers.pools(asked.cluster, now=asked.now),
    ),
)
"""In the order in which they are listed."""
