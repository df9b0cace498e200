"""A KubeSchedulerConfiguration under pseudonyms, without what no answer depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.cluster import drop_nulls
from kschedctl.scheduler.framework.arguments import Naming
from kschedctl.scheduler.registry.in_tree import ARGS
from kschedctl.sources.anonymize.rewriter import Rewriter
from kschedctl.text.urls import strip_url

Document = Mapping[str, Any]
_DROPPED = frozenset({"leaderElection", "clientConnection"})
_VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "bindVerb": "bind"}
"""Parts of an extender's URLs; of these it only counts whether they are there."""


def configuration_under_pseudonyms(document: Document, rewriter: Rewriter) -> dict[str, object]:
    """The document, which is a valid one: names of schedulers, resources and keys, node affinity, extenders' addresses.

    Without where the scheduler finds its cluster, TLS, and the arguments of plugins that are not in-tree, as nobody
    knows what they hold.
    """
    made = {key: value for key, value in drop_nulls(document).items() if key not in _DROPPED}
    if "profiles" in made:
        made["profiles"] = [_profile(profile, rewriter) for profile in made["profiles"]]
    if "extenders" in made:
        made["extenders"] = [_extender(extender, rewriter) for extender in made["extenders"]]
    return made


def _profile(profile: Document, rewriter: Rewriter) -> dict[str, object]:
    made = dict(profile)
    if "schedulerName" in made:
        made["schedulerName"] = rewriter.own_name(made["schedulerName"])
    if "pluginConfig" in made:
        made["pluginConfig"] = [_plugin_config(config, rewriter) for config in made["pluginConfig"]]
    return made


def _plugin_config(config: Document, rewriter: Rewriter) -> dict[str, object]:
    name, args = config.get("name", ""), config.get("args")
    if name not in ARGS:
        return {"name": name}
    naming = getattr(ARGS[name], "naming", {})
    return {**config, "args": _renamed(args, naming, rewriter)} if args and naming else dict(config)


def _renamed(value: object, naming: Mapping[str, Naming], rewriter: Rewriter, field: str = "") -> object:
    """A field of a plugin's arguments, or all of them, under pseudonyms where they name something."""
    names = naming.get(field)
    if isinstance(names, type):
        return msgspec.to_builtins(rewriter.struct(convert_builtins(value, names)))
    if isinstance(value, Mapping):
        return {key: _renamed(inner, naming, rewriter, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, naming, rewriter, field) for inner in value]
    return getattr(rewriter, names)(value) if names else value


def _extender(extender: Document, rewriter: Rewriter) -> dict[str, object]:
    made = {key: value for key, value in extender.items() if key != "tlsConfig"}
    scheme, separator, rest = strip_url(str(made.get("urlPrefix", ""))).partition("://")
    made["urlPrefix"] = f"{scheme}{separator}{rewriter.name(rest.rstrip('/'))}" if separator else rewriter.name(scheme)
    for field, verb in _VERBS.items():
        if made.get(field) not in (None, "", verb):
            made[field] = rewriter.name(made[field])
    if "managedResources" in made:
        made["managedResources"] = _renamed(made["managedResources"], {"name": "resource"}, rewriter)
    return made
