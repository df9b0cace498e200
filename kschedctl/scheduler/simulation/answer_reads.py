"""The data on which plugins' answers about identical pods depend: nodes, a node's own row, or all pods."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Plugin, PreFilterResult, PreScoreResult, Reads, get_reads
from kschedctl.scheduler.simulation.claim_answers import RejectingPlugin, list_rejecting_plugins, reads_claims
from kschedctl.snapshot.pod_info import PodInfo


def get_answer_reads(plugin: Plugin, result: PreFilterResult | PreScoreResult | None) -> Reads:
    """Return what a plugin's answer about the identical pods depends on.

    The answer may narrow the plugin's declaration from all pods to nodes, but never to a node's own row.
    """
    if get_reads(plugin) is Reads.OWN_ROW:
        return Reads.OWN_ROW
    return Reads.NODES if get_reads(plugin, result) is Reads.NODES else Reads.PODS


def list_plugins(framework: FrameworkLike, point: str, info: PodInfo, *, reading_claims: bool) -> list[Plugin]:
    """Return the plugins of an extension point, without those that read the pod's claims unless `reading_claims`."""
    return [plugin for plugin in framework.plugins_at(point) if reading_claims or not reads_claims(plugin, info)]


def select_lasting_results(plugins: list[Plugin], results: Mapping[str, PreFilterResult]) -> dict[str, PreFilterResult]:
    """Return the PreFilter results of the `plugins` that hold no matter which pods run, by plugin."""
    names = {plugin.name for plugin in plugins if get_answer_reads(plugin, results.get(plugin.name)) is Reads.NODES}
    return {name: result for name, result in results.items() if name in names}


def list_changing_filters(
    pre_filters: list[Plugin], filters: list[Plugin], results: Mapping[str, PreFilterResult]
) -> list[RejectingPlugin]:
    """Return the plugins that may reject a node because of pods on other nodes.

    `results` are the PreFilter results for the identical pods, by plugin.
    """
    return [
        rejecting
        for rejecting in list_rejecting_plugins(pre_filters, filters)
        if get_answer_reads(rejecting.plugin, results.get(rejecting.plugin.name)) is Reads.PODS
    ]


def depends_on_other_nodes(
    framework: FrameworkLike, info: PodInfo, results: Mapping[str, PreFilterResult], *, has_claims: bool
) -> bool:
    """Return whether a plugin that does not read claims may reject a node for the pod because of pods on other nodes.

    Return False if the pod can never fit on any node. `results` are the pod's PreFilter results, by plugin.
    """
    pre_filters = list_plugins(framework, "preFilter", info, reading_claims=not has_claims)
    lasting_results = select_lasting_results(pre_filters, results)
    if any(result.status.rejected for result in lasting_results.values()):
        return False
    filters = list_plugins(framework, "filter", info, reading_claims=not has_claims)
    return bool(list_changing_filters(pre_filters, filters, results))
