"""Anonymization of a KubeSchedulerConfiguration, without the parts on which no answer depends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.cluster import drop_nulls
from kschedctl.scheduler.framework.arguments import Naming
from kschedctl.scheduler.registry.in_tree import ARGS
from kschedctl.sources.anonymize.rewriter import Rewriter
from kschedctl.text.printable import strip_url

Document = Mapping[str, Any]
_DROPPED = frozenset({"leaderElection", "clientConnection"})
_VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "bindVerb": "bind"}
"""Parts of an extender's URLs with neutral values. It only matters which of them are set."""


def anonymize_configuration(document: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace schedulers' names, resources, keys, node affinities and extenders' addresses in a valid document.

    The connection to the cluster, TLS settings and the arguments of plugins that are not in-tree are left out, as it is
    not known what the latter contain.
    """
    anonymized = {key: value for key, value in drop_nulls(document).items() if key not in _DROPPED}
    if "profiles" in anonymized:
        anonymized["profiles"] = [_anonymize_profile(profile, rewriter) for profile in anonymized["profiles"]]
    if "extenders" in anonymized:
        anonymized["extenders"] = [_anonymize_extender(extender, rewriter) for extender in anonymized["extenders"]]
    return anonymized


def _anonymize_profile(profile: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace the names in a profile."""
    anonymized = dict(profile)
    if "schedulerName" in anonymized:
        anonymized["schedulerName"] = rewriter.object_name(anonymized["schedulerName"])
    if "pluginConfig" in anonymized:
        anonymized["pluginConfig"] = [
            _anonymize_plugin_config(config, rewriter) for config in anonymized["pluginConfig"]
        ]
    return anonymized


def _anonymize_plugin_config(config: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace the names in a plugin's arguments, or drop the arguments if the plugin is not in-tree."""
    name, args = config.get("name", ""), config.get("args")
    if name not in ARGS:
        return {"name": name}
    naming = getattr(ARGS[name], "naming", {})
    return {**config, "args": _replace_names(args, naming, rewriter)} if args and naming else dict(config)


def _replace_names(value: object, naming: Mapping[str, Naming], rewriter: Rewriter, field: str = "") -> object:
    """Replace the names in a plugin's arguments, or in one field of them, as the plugin's ``naming`` specifies."""
    field_naming = naming.get(field)
    if isinstance(field_naming, type):
        return msgspec.to_builtins(rewriter.rewrite_struct(convert_builtins(value, field_naming)))
    if isinstance(value, Mapping):
        return {key: _replace_names(element, naming, rewriter, key) for key, element in value.items()}
    if isinstance(value, list):
        return [_replace_names(element, naming, rewriter, field) for element in value]
    return getattr(rewriter, field_naming)(value) if field_naming else value


def _anonymize_extender(extender: Document, rewriter: Rewriter) -> dict[str, object]:
    """Replace an extender's address, verbs and resources, and drop its TLS settings."""
    anonymized = {key: value for key, value in extender.items() if key != "tlsConfig"}
    scheme, separator, rest = strip_url(str(anonymized.get("urlPrefix", ""))).partition("://")
    anonymized["urlPrefix"] = (
        f"{scheme}{separator}{rewriter.name(rest.rstrip('/'))}" if separator else rewriter.name(scheme)
    )
    for field, verb in _VERBS.items():
        if anonymized.get(field) not in (None, "", verb):
            anonymized[field] = rewriter.name(anonymized[field])
    if "managedResources" in anonymized:
        anonymized["managedResources"] = _replace_names(anonymized["managedResources"], {"name": "resource"}, rewriter)
    return anonymized
