"""A KubeSchedulerConfiguration under pseudonyms, without what no answer depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kschedctl.api.decoding import from_builtins
from kschedctl.api.objects import NodeAffinity
from kschedctl.cluster import without_nulls
from kschedctl.errors import shown_url
from kschedctl.scheduler.registry.in_tree import ARGS
from kschedctl.sources.anonymize.rewriter import Rewriter

Document = Mapping[str, Any]
_DROPPED = frozenset({"leaderElection", "clientConnection"})
_VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "bindVerb": "bind"}
"""Parts of an extender's URLs; of these it only counts whether they are there."""


def configuration_under_pseudonyms(document: Document, rewriter: Rewriter) -> dict[str, Any]:
    """The document, which is a valid one: names of schedulers, resources and keys, node affinity, extenders' addresses.

    Without where the scheduler finds its cluster, TLS, and the arguments of plugins that are not in-tree, as nobody
    knows what they hold.
    """
    made = {key: value for key, value in without_nulls(document).items() if key not in _DROPPED}
    if "profiles" in made:
        made["profiles"] = [_profile(profile, rewriter) for profile in made["profiles"]]
    if "extenders" in made:
        made["extenders"] = [_extender(extender, rewriter) for extender in made["extenders"]]
    return made


def _profile(profile: Document, rewriter: Rewriter) -> dict[str, Any]:
    made = dict(profile)
    if "schedulerName" in made:
        made["schedulerName"] = rewriter.own_name(made["schedulerName"])
    if "pluginConfig" in made:
        made["pluginConfig"] = [_plugin_config(config, rewriter) for config in made["pluginConfig"]]
    return made


def _plugin_config(config: Document, rewriter: Rewriter) -> dict[str, Any]:
    name, args = config.get("name", ""), config.get("args")
    if name not in ARGS:
        return {"name": name}
    return {**config, "args": _ARGS[name](args, rewriter)} if args and name in _ARGS else dict(config)


def _node_affinity(args: Document, rewriter: Rewriter) -> dict[str, Any]:
    if not args.get("addedAffinity"):
        return dict(args)
    affinity = rewriter.struct(from_builtins(args["addedAffinity"], NodeAffinity))
    return {**args, "addedAffinity": msgspec.to_builtins(affinity)}


def _pod_topology_spread(args: Document, rewriter: Rewriter) -> dict[str, Any]:
    constraints = [
        {key: rewriter.key(value) if key == "topologyKey" else value for key, value in constraint.items()}
        for constraint in args.get("defaultConstraints", ())
    ]
    return {**args, **({"defaultConstraints": constraints} if constraints else {})}


def _node_resources_fit(args: Document, rewriter: Rewriter) -> dict[str, Any]:
    made = dict(args)
    if "ignoredResources" in made:
        made["ignoredResources"] = [rewriter.resource(name) for name in made["ignoredResources"]]
    if "ignoredResourceGroups" in made:
        made["ignoredResourceGroups"] = [rewriter.domain(group) for group in made["ignoredResourceGroups"]]
    if "scoringStrategy" in made:
        made["scoringStrategy"] = _with_resources(made["scoringStrategy"], rewriter)
    return made


def _with_resources(args: Document, rewriter: Rewriter, field: str = "resources") -> dict[str, Any]:
    if field not in args:
        return dict(args)
    return {**args, field: [{**spec, "name": rewriter.resource(spec.get("name", ""))} for spec in args[field]]}


def _extender(extender: Document, rewriter: Rewriter) -> dict[str, Any]:
    made = {key: value for key, value in extender.items() if key != "tlsConfig"}
    scheme, separator, rest = shown_url(str(made.get("urlPrefix", ""))).partition("://")
    made["urlPrefix"] = f"{scheme}{separator}{rewriter.name(rest.rstrip('/'))}" if separator else rewriter.name(scheme)
    for field, verb in _VERBS.items():
        if made.get(field) not in (None, "", verb):
            made[field] = rewriter.name(made[field])
    return _with_resources(made, rewriter, "managedResources")


_ARGS: Mapping[str, Callable[[Document, Rewriter], dict[str, Any]]] = {
    "NodeAffinity": _node_affinity,
    "PodTopologySpread": _pod_topology_spread,
    "NodeResourcesFit": _node_resources_fit,
    "NodeResourcesBalancedAllocation": _with_resources,
}
"""Plugin -> its arguments under pseudonyms; those of the others name nothing."""
