"""What a project sets for lint: ``[tool.kschedctl.lint]`` of its pyproject.toml, or ``lint:`` of its .kschedctl.yaml.

``kschedctl schema lint-settings`` prints the JSON Schema of .kschedctl.yaml.
"""

from __future__ import annotations

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.kube_version import KubeVersion
from kschedctl.errors import ConfigurationError, InputError
from kschedctl.lint.framework.rule import RuleProfile, Severity


class LintSettings(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """``select`` and ``ignore`` are ids of rules or patterns of them; ``severity`` overrides that of rules.

    ``profile``: which rules run where none is selected; one whose severity is set runs in each.
    ``exclude``: patterns of paths that are not read; ``per_path_ignores``: patterns of paths -> ids of rules that are
    not reported there; paths begin at the folder of the settings. ``kube_version``: the version of Kubernetes that
    files are linted for, where no other is asked for. ``together``: lists of paths, each of what goes to one cluster.
    """

    profile: RuleProfile = RuleProfile.DEFAULT
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity = Severity.WARNING
    baseline: str | None = None
    severity: dict[str, Severity] = {}
    exclude: tuple[str, ...] = ()
    per_path_ignores: dict[str, tuple[str, ...]] = {}
    kube_version: str | None = None
    together: tuple[tuple[str, ...], ...] = ()


class ProjectSettings(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The whole file, or table."""

    lint: LintSettings = LintSettings()


def parse_settings(document: object, where: str) -> ProjectSettings:
    """The settings in a parsed document. Raises InputError that names the field."""
    try:
        settings = convert_builtins(document, ProjectSettings)
    except msgspec.ValidationError as error:
        what, _, field = str(error).replace("`", "").partition(" - at $.")
        raise InputError(what[:1].lower() + what[1:], where=f"{where}, {field}" if field else where) from None
    if settings.lint.kube_version is not None:
        try:
            KubeVersion.parse_supported(settings.lint.kube_version)
        except ConfigurationError as error:
            raise InputError(error.what, where=f"{where}, lint.kube-version", hint=error.hint) from None
    return settings


def settings_schema() -> dict[str, object]:
    """The JSON Schema (2020-12) of .kschedctl.yaml."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(ProjectSettings)}
