"""Whether Karpenter would launch a node for one pod: what each pool says, and whether it sees room already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.options import read_karpenter_options
from kschedctl.autoscaling.karpenter.provision import ProvisioningRun, nominated
from kschedctl.autoscaling.karpenter.rejections import rejection
from kschedctl.autoscaling.karpenter.seen_types import seen_types
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting
from kschedctl.cluster import Cluster
from kschedctl.reports.new_node import NewNode, PoolVerdict

NAME = "Karpenter"
NOT_WANTED = "the pod asks for no node of Karpenter's"


def new_node(
    cluster: Cluster, pod: Pod, types: Sequence[JsonObject] | None, options: Mapping[str, object], now: str
) -> NewNode:
    """For a pod alone; without ``types`` those that nodes prove. Raises InputError."""
    known = seen_types(cluster) if types is None else types
    setting = KarpenterSetting.of(cluster, read_instance_types(known), read_karpenter_options(options), now)
    seen = len(known) if types is None else None
    refused = rejection(pod, setting.volumes, setting.sold.well_known)
    names = [pool.metadata.name for pool in cluster.karpenter_node_pools]
    if refused is not None:
        why = refused.removeprefix("Failed to schedule pod, ") or NOT_WANTED
        return NewNode(NAME, tuple(PoolVerdict(name, False, why) for name in names), seen_types=seen)
    existing = setting.existing(setting.pools, lambda node: False)
    here = setting.run([pod], existing, templates=[], movable=[pod.key]) if setting.pools.pools else None
    taking = next((each.node for each in nominated(here)), "") if here else ""
    templates = {each.name: each for each in setting.pools.templates}
    asked = ProvisioningRun(setting)
    answers = {name: asked.alone(pod.key, {pod.key: pod}, templates.get(name), existing) for name in names}
    verdicts = (PoolVerdict(name, bool(each.instance_types), each.text()) for name, each in answers.items())
    return NewNode(NAME, tuple(verdicts), taking, seen)
