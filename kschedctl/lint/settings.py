"""The lint settings of a project: ``[tool.kschedctl.lint]`` in pyproject.toml, or ``lint:`` in .kschedctl.yaml.

``kschedctl schema lint-settings`` prints the JSON Schema of .kschedctl.yaml.
"""

from __future__ import annotations

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.kube_version import KubeVersion
from kschedctl.errors import ConfigurationError, InputError
from kschedctl.lint.framework.rule import RuleProfile, Severity


class LintSettings(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The lint settings of a project. Paths start at the folder of the settings file."""

    profile: RuleProfile = RuleProfile.DEFAULT
    """The rules that run if none are selected."""
    select: tuple[str, ...] = ()
    """Rule ids or patterns; if there are any, only these rules run."""
    ignore: tuple[str, ...] = ()
    """Rule ids or patterns that do not run."""
    fail_on: Severity = Severity.WARNING
    """The lowest severity that makes lint fail."""
    baseline: str | None = None
    """The baseline file."""
    severity: dict[str, Severity] = {}
    """Severities that replace those of rules. Such rules run in every profile."""
    exclude: tuple[str, ...] = ()
    """Patterns of paths that are not read."""
    per_path_ignores: dict[str, tuple[str, ...]] = {}
    """Rule ids that are not reported, by pattern of paths."""
    kube_version: str | None = None
    """The version of Kubernetes that files are linted for unless the command line names one."""
    together: tuple[tuple[str, ...], ...] = ()
    """Lists of paths; what is under the paths of a list goes to one cluster."""


class ProjectSettings(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The whole settings file or table."""

    lint: LintSettings = LintSettings()


def parse_settings(document: object, where: str) -> ProjectSettings:
    """Return the settings in a parsed document. Raises InputError that names the field."""
    try:
        settings = convert_builtins(document, ProjectSettings)
    except msgspec.ValidationError as error:
        message, _, field = str(error).replace("`", "").partition(" - at $.")
        raise InputError(message[:1].lower() + message[1:], where=f"{where}, {field}" if field else where) from None
    if settings.lint.kube_version is not None:
        try:
            KubeVersion.parse_supported(settings.lint.kube_version)
        except ConfigurationError as error:
            raise InputError(error.what, where=f"{where}, lint.kube-version", hint=error.hint) from None
    return settings


def build_settings_schema() -> dict[str, object]:
    """Return the JSON Schema (2020-12) of .kschedctl.yaml."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(ProjectSettings)}
