"""A program that uses the whole library: a type checker reads it strictly, and it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import kschedctl
from kschedctl import demo

PENDING, NODE, ZONE = "shop/web-6d4cf56db6-h8s2k", "general-a1", "topology.kubernetes.io/zone"
CONTAINERS = [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "100m"}}}]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": CONTAINERS}}
EVENT = {"action": "Add", "new": {"kind": "Node", "metadata": {"name": "n9"}}}

META = {"name": PENDING.partition("/")[2], "namespace": "shop", "creationTimestamp": demo.DEMO_TIME}
BINDING = {"kind": "Binding", "metadata": META, "target": {"kind": "Node", "name": NODE}}


def iter_answer_lines(cluster: kschedctl.Cluster, file: str) -> Iterable[str]:
    """Yield each answer in a line, with fields of the reports by their types."""
    explained = kschedctl.explain(cluster, PENDING, remedies=True)
    verdict: str = explained.verdict
    best: tuple[str, ...] = explained.best
    yield f"{verdict} {best} {explained}"
    yield ", ".join(remedy.summary for remedy in kschedctl.remedies(cluster, PENDING).remedies)
    groups: list[int] = [len(group.pods) for group in kschedctl.pending(cluster, "shop").groups]
    yield str(sum(groups))
    yield str(kschedctl.wake_ups(cluster, "shop/checkout-7d9f6c5b8-x2x4q").rejectors)
    yield str(kschedctl.wakes(cluster, "shop/checkout-7d9f6c5b8-x2x4q", EVENT).moved)
    placements: dict[str, str] = kschedctl.simulate(cluster, [POD], seed=1).placements
    yield str(placements)
    yield str(kschedctl.capacity(cluster, [POD], most=3).shapes[0].fits)
    safe: bool = kschedctl.drain(cluster, [NODE]).safe
    yield str(safe)
    yield str(kschedctl.failures(cluster, "zone"))
    yield str(kschedctl.whatif(cluster, {"steps": [{"cordon": {"nodes": [NODE]}}]}))
    yield str(kschedctl.lint(cluster=cluster, select=["pdb-*"]).count("error"))
    yield str(kschedctl.audit(cluster, ["pending"], now=demo.DEMO_TIME))
    yield str(kschedctl.pools(cluster))
    yield str(kschedctl.queues(cluster).waiting)
    yield str(kschedctl.kueue_admission(cluster, cycles=1, now=demo.DEMO_TIME).cycles)
    yield str(kschedctl.cluster_metrics(cluster, [POD], units=["zone"], now=demo.DEMO_TIME).metrics[0].value)
    yield str(kschedctl.scale_up(cluster, pool_label=ZONE))
    yield str(kschedctl.scale_down(cluster, pool_label=ZONE))
    yield str(kschedctl.provision(cluster))
    removable: list[str] = [node.node for node in kschedctl.consolidate(cluster).removable]
    yield str(removable)
    yield str(kschedctl.size(cluster).bound)
    yield str(kschedctl.rebalance(cluster, now=demo.DEMO_TIME).quiet)
    yield str(kschedctl.disrupt(cluster, [], now=demo.DEMO_TIME))
    yield str(kschedctl.admit(cluster, POD).message)
    yield str(kschedctl.run_queue(cluster))
    yield str(kschedctl.follow(cluster, [PENDING]))
    yield str(kschedctl.follow_rollout(cluster, [BINDING]).placements[0].outcome)
    yield str(kschedctl.make_room(cluster, [POD]).fits)
    yield str(kschedctl.pending_remedies(cluster, "shop").cleared)
    yield str(kschedctl.wakes_by(cluster, [EVENT]).answers[0].woken)
    yield str(kschedctl.sampling(cluster, [PENDING]))
    yield str(kschedctl.pending_wake_ups(cluster, "shop").pods[0].headline)
    yield from iter_further_lines(cluster)
    cluster.save(file)
    saved = kschedctl.Cluster.from_snapshot(file)
    yield str(kschedctl.diff(cluster, saved))
    yield str(kschedctl.wakes_between(cluster, saved).changes)
    yield explained.summary().headline
    yield explained.to_markdown()
    yield explained.to_html()


def iter_further_lines(cluster: kschedctl.Cluster) -> Iterable[str]:
    """Yield lines about sections of the audit, metrics, configurations and versions."""
    yield str(kschedctl.packing(cluster, nodes=1).headline)
    yield str(kschedctl.priorities(cluster, now=demo.DEMO_TIME).state)
    yield str(kschedctl.topology(cluster, keys=[ZONE]).workloads)
    yield str(kschedctl.sampling_costs(cluster, kinds=1).headline)
    yield str(kschedctl.races({"nodes": [10], "rates": [1.0], "seconds": 10.0}).headline)
    yield str(kschedctl.latency(['scheduler_pending_pods{queue="active"} 0']).headline)
    yield str(kschedctl.version_changes("1.35", "1.36").changes[0].before)
    yield str(kschedctl.effective_configuration().profiles[0].scheduler_name)
    yield str(kschedctl.check_configuration({"kind": "KubeSchedulerConfiguration"}).count("error"))


def main() -> None:
    for line in iter_answer_lines(
        kschedctl.Cluster.from_paths(list(demo.list_files()), assume_complete=True), sys.argv[1]
    ):
        print(line)


if __name__ == "__main__":
    main()
