"""A guard between kustomize and helm, which runs helm only with the options that kustomize itself passes."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence

ALLOWED_COMMANDS = frozenset({"version", "template", "pull"})
ALLOWED_OPTIONS = frozenset(
    {
        "--generate-name",
        "--include-crds",
        "--skip-tests",
        "--no-hooks",
        "--debug",
        "--devel",
        "--untar",
        "--short",
        "-c",
    }
)
OPTIONS_WITH_VALUE = frozenset(
    {"--namespace", "--name-template", "-f", "--values", "--api-versions", "--kube-version", "--untardir", "--repo"}
    | {"--version"}
)
HOME_VARIABLES = ("HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME")
"""The variables that name helm's configuration and plugin folders.

Kustomize points them to a temporary folder.
"""
_READS_ENVIRONMENT = re.compile(r"\b(env|expandenv|getHostByName)\b")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ALLOWED_SCHEMES = ("http://", "https://", "oci://")


def explain_disallowed_call(arguments: Sequence[str], environment: Mapping[str, str], top: str) -> str:
    """Return why a call of helm is not allowed, or "" if it is.

    The command, options, values and HOME_VARIABLES are checked. ``top`` is the top folder of the repository.
    """
    if not arguments or arguments[0] not in ALLOWED_COMMANDS:
        return f"{' '.join(['helm', *arguments[:1]])} is not a command that kustomize needs"
    words = iter(arguments[1:])
    for word in words:
        if word in OPTIONS_WITH_VALUE:
            reason = explain_unsafe_value(word, next(words, ""), top)
        elif word.startswith("-") and word not in ALLOWED_OPTIONS:
            reason = f'"{word}" would be an option of helm'
        else:
            reason = explain_unsafe_value("", word, top)
        if reason:
            return reason
    for name in HOME_VARIABLES:
        if name in environment and not _is_kustomize_home(environment[name]):
            return f'{name} is "{environment[name]}": {HOME_REFUSAL}'
    return ""


HOME_REFUSAL = "a repository must not set helm's configuration or plugin folders"


def explain_unsafe_value(option: str, value: str, top: str) -> str:
    """Return why an option's value is not allowed, or "" if it is. ``top`` is the repository's top folder.

    The option is "" for positional arguments.
    """
    if value.startswith("-") and (option or value not in ALLOWED_OPTIONS):
        return f'"{value}" would be an option of helm'
    if option == "--name-template" and _READS_ENVIRONMENT.search(value):
        return f'"{value}" reads the environment'
    if (option == "--repo" or _SCHEME.match(value)) and not value.lower().startswith(_ALLOWED_SCHEMES):
        return f'"{value}" must be an HTTP URL or in an OCI registry'
    if option == "--untardir" and not (_is_within(value, top) or _is_kustomize_folder(value)):
        return f'"{value}" is outside the repository, so charts must not be written there'
    return ""


def _is_within(path: str, folder: str) -> bool:
    """Return whether the path, with links resolved, is the folder or below it."""
    path = os.path.realpath(path)
    folder = os.path.realpath(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_kustomize_folder(path: str) -> bool:
    """Return whether the path is in a temporary folder of kustomize, such as the clone of a remote base."""
    prefix = os.path.join(os.path.realpath(tempfile.gettempdir()), "kustomize-")
    return os.path.realpath(path).startswith(prefix)


def _is_kustomize_home(home: str) -> bool:
    """Return whether the folder is the temporary one that kustomize creates for helm."""
    prefix = os.path.join(os.path.realpath(tempfile.gettempdir()), "kustomize-helm-")
    return os.path.realpath(home).startswith(prefix)


def run_helm(helm: str, top: str, *arguments: str) -> None:
    """Replace this process by helm, or exit with the reason if the call is not allowed."""
    if reason := explain_disallowed_call(arguments, os.environ, top):
        sys.exit(f"not run: {reason}")
    os.execv(helm, [helm, *arguments])


if __name__ == "__main__":
    run_helm(*sys.argv[1:])
