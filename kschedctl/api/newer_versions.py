"""Objects in versions of the API that came after this program: taken where all their fields are known, else left out.

Left out they are a gap: what they say is not known, and nothing is taken for absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kschedctl.api.decoding import fields_not_in
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import KINDS
from kschedctl.api.kube_version import NEWEST_MINOR

_FOR_PEOPLE = re.compile(r"apiVersion|kind|metadata\..*|status\.conditions\[.*")
"""Fields that say of every kind the same, and nothing to the scheduler."""
_FOR_DRIVERS = re.compile(
    r"spec\.(spec\.)?(devices\.)?config|status\.(allocation\.devices\.config|devices\[\d+\]\.\w+)"
)
"""What DeviceClasses and claims say to the drivers of devices, and these of devices.

Upstream: staging/src/k8s.io/api/resource/v1/types.go (v1.37).
"""
_WITH_DRIVERS = frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate"})


def fault(kind: str, document: JsonObject) -> str:
    """Why an object is not to be read: it has a field that may mean something to scheduling and is not known; or "".

    ``document``: without nulls.
    """
    return next((f"{path} is not known" for path in unknown_paths(kind, document)), "")


def unknown_paths(kind: str, document: JsonObject) -> Iterator[str]:
    """The fields that may mean something to scheduling, and that the struct of the kind does not have."""
    struct = KINDS[kind].struct
    read = document if "status" in struct.__struct_fields__ else {k: v for k, v in document.items() if k != "status"}
    paths = (path for path, _ in fields_not_in(read, struct, NEWEST_MINOR))
    drivers = kind in _WITH_DRIVERS
    return (p for p in paths if not (_FOR_PEOPLE.fullmatch(p) or (drivers and _FOR_DRIVERS.fullmatch(p))))


def left_out(version: str, why: str) -> str:
    """What is not known of a kind of which objects are left out; goes on from its plural."""
    return f"in apiVersion {version}, which is newer than this kschedctl, were left out ({why})"


def taken(kind: str, version: str) -> str:
    """What to know of a kind of which objects are taken."""
    known = KINDS[kind]
    return f"{known.kind} in apiVersion {version} is newer than this kschedctl: read as {known.versions[0]}"
