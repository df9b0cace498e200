"""A stand-in for kubectl that runs our printed commands and rejects whatever it does not know."""

from __future__ import annotations

import json
import shlex
from copy import deepcopy
from typing import Any

from control_plane import running
from control_plane.patches import merge_patch
from control_plane.store import Key, RefusedError, Store, apply_patch

Json = dict[str, Any]
KINDS = {
    "Pod", "Node", "Namespace", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "PersistentVolume",
    "PersistentVolumeClaim", "StorageClass", "VolumeAttachment", "ResourceClaim", "ResourceClaimTemplate",
    "DeviceClass", "DeviceTaintRule", "ElasticQuota", "CSINode", "ReplicationController", "ResourceQuota",
    "RuntimeClass", "CSIDriver", "Service", "ClusterQueue", "LocalQueue",
}  # fmt: skip
NAMES = {kind.lower(): kind for kind in KINDS} | {"pvc": "PersistentVolumeClaim", "pv": "PersistentVolume"}
NAMES["workload.kueue.x-k8s.io"] = "Workload"
SORTS = ("json", "merge", "strategic")


class Arguments:
    """Words of a command line: positional words, and options with values. Each of them has to be used."""

    def __init__(self, words: list[str], flags: tuple[str, ...] = ()) -> None:
        self.words: list[str] = []
        self.options: dict[str, str] = {}
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word in flags:
                self.options[word] = ""
            elif word.startswith("--") and "=" in word:
                name, _, value = word.partition("=")
                self.options[name] = value
            elif word.startswith("-") and word != "-":
                self.options[word] = rest.pop(0)
            else:
                self.words.append(word)

    def option(self, *names: str, default: str = "") -> str:
        return next((self.options.pop(name) for name in names if name in self.options), default)

    def target(self) -> Key:
        """Take the kind and the name from the words, and return the key of the object.

        Raises RefusedError if the kind is unknown.
        """
        kind = NAMES.get(self.words.pop(0))
        if kind is None:
            raise RefusedError("error: the server doesn't have a resource type of that name")
        namespace = self.option("-n")
        return Key(kind, namespace, self.words.pop(0))

    def finish(self) -> None:
        if self.words or self.options:
            raise RefusedError(f"error: unknown arguments {self.words} {self.options}")


def run(store: Store, line: str) -> None:
    """Run one command line as a shell would, with pipes. Raises RefusedError if a command is unknown or fails."""
    is_prompt = line.startswith("echo ") and line.endswith(" && read -r REPLY")
    if line.startswith("#") or is_prompt:
        return
    shell = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    shell.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in shell:
        if word == "|":
            commands.append([])
        elif set(word) <= set("|;&<>"):
            raise RefusedError(f"not a pipe: {word}")
        else:
            commands[-1].append(word)
    given = ""
    for words in commands:
        given = _run_command(store, words, given)


def _run_command(store: Store, words: list[str], given: str) -> str:
    """Run one command with the standard input ``given``, and return its output.

    Raises RefusedError if the command is unknown or fails.
    """
    match words:
        case ["printf", "%s", text]:
            return text
        case ["kubectl", "apply", "-f", "-"]:
            _apply(store, json.loads(given))
        case ["kubectl", "replace", "--force", "-f", "-"]:
            _replace(store, json.loads(given))
        case ["kubectl", "create", "--raw", path, "-f", "-"]:
            _evict(store, path, json.loads(given))
        case ["kubectl", "create", "-f", "-"]:
            _create(store, json.loads(given))
        case ["kubectl", verb, *rest] if verb in VERBS and not given:
            return VERBS[verb](store, rest) or ""
        case _:
            raise RefusedError(f"unknown command: {shlex.join(words)}")
    return ""


def _apply(store: Store, document: Json) -> None:
    """Create the object, or merge it into the existing object."""
    key = Key.of(document)
    known = store.get(key)
    if known is None:
        store.create(document)
    else:
        store.update(merge_patch(known, document), "applied")


def _replace(store: Store, document: Json) -> None:
    """Replace an object by force.

    Upstream: forceReplace in k8s.io/kubectl/pkg/cmd/replace (v1.36), which ignores that there is no such object.
    """
    if store.get(Key.of(document)) is not None:
        store.delete(Key.of(document))
    store.create(document)


def _create(store: Store, document: Json) -> None:
    if document["metadata"].get("resourceVersion"):
        raise RefusedError("resourceVersion should not be set on objects to be created")
    store.create(document)


def _evict(store: Store, path: str, eviction: Json) -> None:
    """Evict a pod. Raises RefusedError if its PodDisruptionBudget does not allow that or the request is malformed.

    Upstream: pkg/registry/core/pod/storage/eviction.go (v1.36).
    """
    meta = eviction["metadata"]
    if (eviction["apiVersion"], eviction["kind"]) != ("policy/v1", "Eviction"):
        raise RefusedError("the server could not find the requested resource")
    if path != f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction":
        raise RefusedError("the name in the URL does not match the name in the object")
    key = Key("Pod", meta["namespace"], meta["name"])
    if not _may_be_evicted(store, store.read(key)):
        raise RefusedError("Cannot evict pod as it would violate the pod's disruption budget.")
    store.delete(key)


def _get(store: Store, rest: list[str]) -> str:
    """Run ``kubectl get -o json`` of one object, and return its output."""
    arguments = Arguments(rest)
    key, form = arguments.target(), arguments.option("-o")
    arguments.finish()
    if form != "json":
        raise RefusedError("error: only json is read on")
    return json.dumps(store.read(key))


def _run_read_only_command(store: Store, rest: list[str]) -> None:
    """Run a command that only shows something or waits."""
    if not rest:
        raise RefusedError("error: what?")


def _patch(store: Store, rest: list[str]) -> str:
    """Run ``kubectl patch``, and return its output, which is empty unless it is a dry run."""
    arguments = Arguments(rest)
    key, sort = arguments.target(), arguments.option("--type", default="strategic")
    subresource = arguments.option("--subresource")
    change, dry, form = json.loads(arguments.option("-p")), arguments.option("--dry-run"), arguments.option("-o")
    arguments.finish()
    if sort not in SORTS:
        raise RefusedError(f"error: --type must be one of {SORTS}")
    if (dry, form) == ("client", "json"):
        return json.dumps(apply_patch(store.read(key), change, sort))
    if dry or form:
        raise RefusedError("error: half a dry run")
    if subresource not in ("", "resize"):
        raise RefusedError("error: invalid subresource value")
    store.patch(key, change, sort, subresource)
    return ""


def _delete(store: Store, rest: list[str]) -> None:
    """Run ``kubectl delete`` of one object."""
    arguments = Arguments(rest)
    key = arguments.target()
    arguments.finish()
    store.delete(key)


def _cordon(store: Store, rest: list[str]) -> None:
    _set_cordon(store, rest, True)


def _uncordon(store: Store, rest: list[str]) -> None:
    _set_cordon(store, rest, False)


def _set_cordon(store: Store, rest: list[str], cordoned: bool) -> None:
    """Cordon or uncordon a node. Its taint is updated as well, as the node lifecycle controller does."""
    (name,) = rest
    node = deepcopy(store.read(Key("Node", "", name)))
    own = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    spec = node.setdefault("spec", {})
    spec["unschedulable"] = cordoned
    taints = [each for each in spec.get("taints") or () if each["key"] != own["key"]]
    spec["taints"] = [*taints, own] if cordoned else taints  # by the node lifecycle controller
    store.update(node)


def _label(store: Store, rest: list[str]) -> None:
    _set_metadata(store, rest, "labels")


def _annotate(store: Store, rest: list[str]) -> None:
    _set_metadata(store, rest, "annotations")


def _set_metadata(store: Store, rest: list[str], field: str) -> None:
    """Run ``kubectl label`` or ``kubectl annotate``. ``field`` is the field of the metadata.

    Raises RefusedError if an existing value would be changed without ``--overwrite``.
    """
    arguments = Arguments(rest, flags=("--overwrite",))
    key, overwrite = arguments.target(), "--overwrite" in arguments.options
    arguments.option("--overwrite")
    found = deepcopy(store.read(key))
    known = found["metadata"].setdefault(field, {})
    for word in arguments.words:
        name, sign, value = word.partition("=")
        if not sign and name.endswith("-"):
            known.pop(name[:-1], None)
        elif known.get(name, value) != value and not overwrite:
            raise RefusedError(f"error: '{name}' already has a value ({known[name]}), and --overwrite is false")
        else:
            known[name] = value
    arguments.words = []
    arguments.finish()
    store.update(found)


def _taint(store: Store, rest: list[str]) -> None:
    """Run ``kubectl taint``, which can only remove taints here. Raises RefusedError if a taint does not exist."""
    arguments = Arguments(rest)
    key = arguments.target()
    node = deepcopy(store.read(key))
    for word in arguments.words:
        name, _, effect = word.removesuffix("-").partition(":")
        taints = node["spec"].get("taints") or []
        left = [each for each in taints if each["key"] != name or (effect and each["effect"] != effect)]
        if not word.endswith("-") or len(left) == len(taints):
            raise RefusedError(f"error: taint {word} not found")
        node["spec"]["taints"] = left
    arguments.words = []
    arguments.finish()
    store.update(node)


def _scale(store: Store, rest: list[str]) -> None:
    """Run ``kubectl scale`` of one workload."""
    arguments = Arguments(rest)
    key, replicas = arguments.target(), int(arguments.option("--replicas"))
    arguments.finish()
    store.patch(key, {"spec": {"replicas": replicas}}, "merge")


DRAINED = "kubectl drain waits for as long as a budget allows no eviction"


def _drain(store: Store, rest: list[str]) -> None:
    """Cordon the node and evict its pods one by one as budgets allow, while controllers and the scheduler run.

    Upstream: RunNodeDrain and the pod filters of k8s.io/kubectl/pkg/drain (v1.36).
    """
    arguments = Arguments(rest, flags=("--ignore-daemonsets", "--delete-emptydir-data"))
    (name,), scratch = arguments.words, "--delete-emptydir-data" in arguments.options
    if "--ignore-daemonsets" not in arguments.options and any(
        _is_daemon_set_pod(pod) for pod in _list_pods_on(store, name)
    ):
        raise RefusedError("error: cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
    _set_cordon(store, [name], True)
    while leaving := [pod for pod in _list_pods_on(store, name) if not _is_daemon_set_pod(pod)]:
        for pod in leaving:
            if not pod["metadata"].get("ownerReferences"):
                raise RefusedError("error: cannot delete Pods that declare no controller (use --force to override)")
            if not scratch and any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ()):
                raise RefusedError("error: cannot delete Pods with local storage (use --delete-emptydir-data)")
        allowed = next((pod for pod in leaving if _may_be_evicted(store, pod)), None)
        if allowed is None:
            raise RefusedError(DRAINED)
        store.delete(Key.of(allowed))
        running.run(store)


def _list_pods_on(store: Store, node: str) -> list[Json]:
    return [pod for pod in store.of_kind("Pod") if pod["spec"].get("nodeName") == node]


def _is_daemon_set_pod(pod: Json) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())


def _may_be_evicted(store: Store, pod: Json) -> bool:
    """Return whether at most one PodDisruptionBudget selects the pod, and it allows a disruption.

    A pod without a node is never refused. Every pod with a node counts as ready.
    """
    if not pod["spec"].get("nodeName"):
        return True
    namespace = Key.of(pod).namespace
    budgets = [each for each in store.of_kind("PodDisruptionBudget") if Key.of(each).namespace == namespace]
    selecting = [each for each in budgets if _is_selected(pod, each)]
    return not selecting or (len(selecting) == 1 and _count_allowed_disruptions(store, selecting[0]) > 0)


def _is_selected(pod: Json, budget: Json) -> bool:
    wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
    return wanted.items() <= (pod["metadata"].get("labels") or {}).items()


def _count_allowed_disruptions(store: Store, budget: Json) -> int:
    """Return how many disruptions a budget allows.

    Upstream: getExpectedPodCount and countHealthyPods in pkg/controller/disruption/disruption.go (v1.36).
    """
    namespace = Key.of(budget).namespace
    pods = [each for each in store.of_kind("Pod") if Key.of(each).namespace == namespace]
    mine = [each for each in pods if _is_selected(each, budget)]
    healthy = sum(bool(each["spec"].get("nodeName")) for each in mine)
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        return healthy - (len(mine) - _compute_share(spec["maxUnavailable"], len(mine)))
    return healthy - _compute_share(spec.get("minAvailable", 0), len(mine))


def _compute_share(amount: int | str, of: int) -> int:
    """Return the amount, or the percentage of a number, rounded up."""
    return amount if isinstance(amount, int) else -(-int(amount.rstrip("%")) * of // 100)


VERBS: dict[str, Any] = {
    "get": _get,
    "describe": _run_read_only_command,
    "wait": _run_read_only_command,
    "rollout": _run_read_only_command,
    "patch": _patch,
    "delete": _delete,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "label": _label,
    "annotate": _annotate,
    "taint": _taint,
    "scale": _scale,
    "drain": _drain,
}
