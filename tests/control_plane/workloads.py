"""The controllers that create pods from templates, roll out new templates, and delete pods, step by step.

Upstream: pkg/controller/{deployment,replicaset,statefulset,daemon,job} (v1.36). A pod is ready once it has a node.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

from control_plane.store import Key, RefusedError, Store, build_owner, build_owner_reference

Json = dict[str, Any]
HASH, REVISION, COST = "pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/pod-deletion-cost"


def reconcile_workloads(store: Store) -> None:
    """Run each controller once on each workload."""
    for kind, control in CONTROLLERS.items():
        for each in store.of_kind(kind):
            if Key.of(each) in store.objects:
                control(store, each)


def is_ready(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def make_pod(store: Store, by: Json, template: Json, name: str, labels: Json, **spec: Any) -> None:
    """Create a pod of the template, unless admission denies it."""
    meta = deepcopy(template.get("metadata") or {})
    meta |= {"name": name, "namespace": by["metadata"].get("namespace") or "default"}
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    meta["ownerReferences"] = [build_owner_reference(by)]
    try:
        store.create(
            {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {**deepcopy(template["spec"]), **spec}}
        )
    except RefusedError as error:
        store.log.append(f"FailedCreate {name}: {error}")


def remove(store: Store, pod: Json) -> None:
    store.delete(Key.of(pod))


# -- ReplicaSets, Jobs -------------------------------------------------------------------------------------------------


def reconcile_replicas(store: Store, found: Json) -> None:
    """Create or delete pods until the wanted number exists, in the order of upstream's ActivePodsWithRanks."""
    pods, wanted = store.owned(found), found["spec"].get("replicas", 1)
    template = found["spec"]["template"]
    for _ in range(wanted - len(pods)):
        make_pod(store, found, template, f"{found['metadata']['name']}-{next(store.numbers)}", {})
    together = Counter(pod["spec"].get("nodeName") for pod in pods)

    def standing(pod: Json) -> tuple[Any, ...]:
        cost = int((pod["metadata"].get("annotations") or {}).get(COST, 0))
        return is_ready(pod), cost, -together[pod["spec"].get("nodeName")]

    for pod in sorted(pods, key=standing)[: max(len(pods) - wanted, 0)]:
        remove(store, pod)


def reconcile_job(store: Store, found: Json) -> None:
    spec = found["spec"]
    for _ in range(spec.get("parallelism", 1) - len(store.owned(found))):
        make_pod(store, found, spec["template"], f"{found['metadata']['name']}-{next(store.numbers)}", {})


# -- Deployments -------------------------------------------------------------------------------------------------------


def reconcile_deployment(store: Store, found: Json) -> None:
    """Take one step of a rolling update: the new ReplicaSet grows, or the old ones shrink."""
    spec, sets = found["spec"], store.owned(found, "ReplicaSet")
    new = next((each for each in sets if _build_template(each) == spec["template"]), None)
    if new is None:
        new = _create_replica_set(store, found)
        sets.append(new)
    old = [each for each in sets if each is not new]
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = _compute_share(rolling.get("maxSurge", "25%"), spec["replicas"], up=True)
    unavailable = _compute_share(rolling.get("maxUnavailable", "25%"), spec["replicas"], up=False)
    unavailable = unavailable if surge or unavailable else 1
    total = sum(each["spec"]["replicas"] for each in sets)
    if not any(each["spec"]["replicas"] for each in old):
        new["spec"]["replicas"] = spec["replicas"]
    elif new["spec"]["replicas"] < spec["replicas"] and total < spec["replicas"] + surge:
        more = min(spec["replicas"] + surge - total, spec["replicas"] - new["spec"]["replicas"])
        new["spec"]["replicas"] += more
    else:
        _shrink(store, new, old, total, spec["replicas"] - unavailable)


def _shrink(store: Store, new: Json, old: list[Json], total: int, least: int) -> None:
    """Delete old pods: first those that are not ready, then as many ready ones as are not needed."""
    available = {id(each): sum(map(is_ready, store.owned(each))) for each in (new, *old)}
    limit = total - least - (new["spec"]["replicas"] - available[id(new)])
    if limit <= 0:
        return
    for each in old:
        fewer = min(each["spec"]["replicas"] - available[id(each)], limit)
        each["spec"]["replicas"] -= fewer
        limit -= fewer
    beyond = sum(available.values()) - least
    for each in old:
        fewer = min(each["spec"]["replicas"], max(beyond, 0))
        each["spec"]["replicas"] -= fewer
        beyond -= fewer


def _build_template(replica_set: Json) -> Json:
    """Return the current template of the Deployment."""
    found = deepcopy(replica_set["spec"]["template"])
    found["metadata"]["labels"].pop(HASH, None)
    return found


def _create_replica_set(store: Store, found: Json) -> Json:
    """Create the ReplicaSet for the current template of a Deployment, without replicas."""
    meta, hashed = found["metadata"], f"h{next(store.numbers)}"
    template = deepcopy(found["spec"]["template"])
    template["metadata"]["labels"][HASH] = hashed
    named = {"name": f"{meta['name']}-{hashed}", "namespace": meta.get("namespace"), "labels": {HASH: hashed}}
    named |= {"ownerReferences": [build_owner_reference(found)], "annotations": build_revision_annotations(found)}
    spec = {"replicas": 0, "template": template, "selector": {"matchLabels": template["metadata"]["labels"]}}
    return store.create({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": named, "spec": spec})


def build_revision_annotations(found: Json) -> Json:
    """Return the annotations that the controller adds to each ReplicaSet."""
    replicas = found["spec"]["replicas"]
    rolling = (found["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    most = replicas + _compute_share(rolling.get("maxSurge", "25%"), replicas, up=True)
    return {
        "deployment.kubernetes.io/desired-replicas": str(replicas),
        "deployment.kubernetes.io/max-replicas": str(most),
    }


def _compute_share(amount: int | str, of: int, up: bool) -> int:
    """Return a number of pods, or a percentage of ``of`` pods, rounded up or down."""
    if isinstance(amount, int):
        return amount
    percent = int(amount.rstrip("%"))
    return -(-percent * of // 100) if up else percent * of // 100


# -- StatefulSets ------------------------------------------------------------------------------------------------------


def reconcile_stateful_set(store: Store, found: Json) -> None:
    """Take one step of a StatefulSet.

    Pods are created in order, each once all pods before it are ready. Then outdated pods are replaced from the last to
    the first.
    """
    spec, meta = found["spec"], found["metadata"]
    first = (spec.get("ordinals") or {}).get("start", 0)
    parallel = spec.get("podManagementPolicy") == "Parallel"
    pods = {pod["metadata"]["name"]: pod for pod in store.owned(found)}
    names = [f"{meta['name']}-{number}" for number in range(first, first + spec["replicas"])]
    for name in names:
        if name not in pods:
            _create_ordinal_pod(store, found, name)
            return
        _create_claims(store, found, name)
        if not is_ready(pods[name]) and not parallel:
            return
    surplus = [pods[name] for name in pods if name not in names]
    if surplus:
        remove(store, max(surplus, key=lambda pod: int(pod["metadata"]["name"].rpartition("-")[2])))
        return
    for name in reversed(names):
        if _is_outdated(store, found, pods[name]):
            remove(store, pods[name])
            return
        if not is_ready(pods[name]):
            return


def _get_revision(store: Store, found: Json) -> str:
    """Return the number of the template among all templates of the StatefulSet."""
    known = found.setdefault("revisions", [])
    if found["spec"]["template"] not in known:
        known.append(deepcopy(found["spec"]["template"]))
    return f"r{known.index(found['spec']['template'])}"


def _is_outdated(store: Store, found: Json, pod: Json) -> bool:
    return bool(pod["metadata"]["labels"][REVISION] != _get_revision(store, found))


def _create_claims(store: Store, found: Json, pod: str) -> None:
    """Create the missing claims of a StatefulSet's pod from the claim templates."""
    for each in found["spec"].get("volumeClaimTemplates") or ():
        meta = {"name": f"{each['metadata']['name']}-{pod}", "namespace": found["metadata"].get("namespace")}
        claim = {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": deepcopy(each["spec"])}
        if Key.of(claim) not in store.objects:
            store.create(claim)


def _create_ordinal_pod(store: Store, found: Json, name: str) -> None:
    """Create a pod of a StatefulSet with its claims and its volumes."""
    template, templates = found["spec"]["template"], found["spec"].get("volumeClaimTemplates") or ()
    _create_claims(store, found, name)
    own = [
        {"name": t["metadata"]["name"], "persistentVolumeClaim": {"claimName": f"{t['metadata']['name']}-{name}"}}
        for t in templates
    ]
    volumes = [*own, *(template["spec"].get("volumes") or ())]
    labels = {REVISION: _get_revision(store, found), "statefulset.kubernetes.io/pod-name": name}
    labels["apps.kubernetes.io/pod-index"] = name.rpartition("-")[2]
    make_pod(store, found, template, name, labels, volumes=volumes)


# -- DaemonSets --------------------------------------------------------------------------------------------------------


def reconcile_daemon_set(store: Store, found: Json) -> None:
    """Keep a pod on each node that had one.

    Outdated pods that are not ready are deleted at once, and other outdated pods one by one.
    """
    pods = store.owned(found)
    nodes = found.setdefault("nodes", [get_pinned_node(pod) for pod in pods])
    outdated = [pod for pod in pods if _is_outdated(store, found, pod)]
    going = [pod for pod in outdated if not is_ready(pod)] or (outdated[:1] if all(map(is_ready, pods)) else [])
    for pod in going:
        remove(store, pod)
    present = {get_pinned_node(pod) for pod in store.owned(found)}
    for node in nodes:
        if node not in present:
            name = f"{found['metadata']['name']}-{next(store.numbers)}"
            affinity = {**(found["spec"]["template"]["spec"].get("affinity") or {}), **_build_node_pin(node)}
            labels = {REVISION: _get_revision(store, found)}
            make_pod(store, found, found["spec"]["template"], name, labels, affinity=affinity)


def get_pinned_node(pod: Json) -> str:
    """Return the node of a DaemonSet's pod, which its node affinity names while the pod waits."""
    if is_ready(pod):
        return str(pod["spec"]["nodeName"])
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def _build_node_pin(node: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


CONTROLLERS = {
    "Deployment": reconcile_deployment,
    "ReplicaSet": reconcile_replicas,
    "StatefulSet": reconcile_stateful_set,
    "DaemonSet": reconcile_daemon_set,
    "Job": reconcile_job,
}


def find_workload(store: Store, pod: Json) -> Json | None:
    """Return the workload behind a pod. For a ReplicaSet this is its Deployment."""
    found: Json | None = None
    named = build_owner(pod)
    while named is not None:
        key = Key(named["kind"], pod["metadata"].get("namespace") or "default", named["name"])
        found = store.read(key)
        named = build_owner(found)
    return found
