"""Stands before helm where kustomize calls it: runs it only with the options that kustomize itself gives.

Kustomize puts values of a repository on helm's command line as they are, where one that begins with a dash is an
option: ``releaseName: --post-renderer=…`` runs a program. Run as a file by ``python -I``, it needs nothing but Python.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence

COMMANDS = frozenset({"version", "template", "pull"})
OPTIONS = frozenset(
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
WITH_VALUE = frozenset(
    {"--namespace", "--name-template", "-f", "--values", "--api-versions", "--kube-version", "--untardir", "--repo"}
    | {"--version"}
)
HOMES = ("HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME")
"""Where helm looks for its configuration and plugins; kustomize sets them, to a folder that it makes."""
_READS_ENVIRONMENT = re.compile(r"\b(env|expandenv|getHostByName)\b")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FETCHED = ("http://", "https://", "oci://")


def refusal(arguments: Sequence[str], environment: Mapping[str, str], top: str) -> str:
    """What of a call is not kustomize's own, empty where all is. ``top``: the folder of the repository."""
    if not arguments or arguments[0] not in COMMANDS:
        return f"{' '.join(['helm', *arguments[:1]])} is not a command that kustomize needs"
    words = iter(arguments[1:])
    for word in words:
        value = next(words, "") if word in WITH_VALUE else word
        if word.startswith("-") and word not in OPTIONS | WITH_VALUE:
            return f'"{word}" would be an option of helm'
        if said := refused_value(word if word in WITH_VALUE else "", value, top):
            return said
    homes = {name: environment[name] for name in HOMES if name in environment}
    return next((f'{name} is "{home}": {CONFIGURED}' for name, home in homes.items() if not _is_made(home)), "")


CONFIGURED = "a repository does not say where helm has its configuration and plugins"


def refused_value(option: str, value: str, top: str) -> str:
    """What is wrong with a value of an option, or with a word by itself, where none is named."""
    if value.startswith("-") and (option or value not in OPTIONS):
        return f'"{value}" would be an option of helm'
    if option == "--name-template" and _READS_ENVIRONMENT.search(value):
        return f'"{value}" reads the environment'
    if (option == "--repo" or _SCHEME.match(value)) and not value.lower().startswith(_FETCHED):
        return f'"{value}" is fetched neither by HTTP nor from a registry'
    if option == "--untardir" and not (_is_within(value, top) or _is_clone(value)):
        return f'"{value}" is outside of the repository, and charts are not written there'
    return ""


def _is_within(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_clone(path: str) -> bool:
    """Whether it is in one of kustomize's own folders, such as that of a remote base."""
    made = os.path.join(os.path.realpath(tempfile.gettempdir()), "kustomize-")
    return os.path.realpath(path).startswith(made)


def _is_made(home: str) -> bool:
    made = os.path.join(os.path.realpath(tempfile.gettempdir()), "kustomize-helm-")
    return os.path.realpath(home).startswith(made)


def main(helm: str, top: str, *arguments: str) -> None:
    """Become helm, unless something is refused."""
    if said := refusal(arguments, os.environ, top):
        sys.exit(f"not run: {said}")
    os.execv(helm, [helm, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
