"""Objects in versions of the API that came after this program: taken where all their fields are known, else left out.

Left out they are a gap: what they say is not known, and nothing is taken for absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kschedctl.api.kinds import KINDS, kind_in_api
from kschedctl.api.kube_version import NEWEST_MINOR
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework.strict_decoding import fields_not_in

_FOR_PEOPLE = re.compile(r"apiVersion|kind|metadata\..*|status\.conditions\[.*")
"""Fields that say of every kind the same, and nothing to the scheduler."""


def unknown_field(kind: str, document: Mapping[str, Any]) -> str:
    """The path of a field that may mean something to scheduling and is not known; "" where all are."""
    struct = KINDS[kind].struct
    read = document if "status" in struct.__struct_fields__ else {k: v for k, v in document.items() if k != "status"}
    paths = (path for path, _ in fields_not_in(read, struct, NEWEST_MINOR))
    return next((path for path in paths if not _FOR_PEOPLE.fullmatch(path)), "")


def left_out(version: str, why: str) -> Gap:
    """What is not known of a kind of which objects are left out."""
    return Gap(f"in apiVersion {version}, which is newer than this kschedctl, were left out ({why})")


def taken(kind: str, version: str) -> str:
    """What to know of a kind of which objects are taken."""
    return (
        f"{kind_in_api(kind)} in apiVersion {version} is newer than this kschedctl: read as {KINDS[kind].versions[0]}"
    )
