"""Fingerprints that identify a finding across runs by its rule, its object and the names on the path to the field.

Files and list indices are not part of a fingerprint, so that a file may be renamed and a container may be moved.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from kschedctl.api.json_values import field_at
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.lint.objects.subject import Path, Subject
from kschedctl.reports.findings import Finding

_POD_TEMPLATE_PREFIX = re.compile(
    "|".join(rf"^{re.escape('.'.join(POD_TEMPLATE_PATHS[kind]))}\.(?=spec)" for kind in ("Deployment", "CronJob"))
)
IDENTIFYING_FIELDS = ("name", "key", "topologyKey", "hostPort", "containerPort")
"""The fields that identify the items of a list. Items without any are not told apart."""


def build_fingerprint(rule: str, subject: Subject, path: Path) -> str:
    """Return the fingerprint of a problem. Findings that agree in rule, object and names share it."""
    return _hash_parts(rule, str(subject), *_iter_step_names(subject.document, path))


def build_legacy_fingerprint(finding: Finding) -> str:
    """Return the fingerprint that the first version of baselines has for a finding, by file and list index."""
    path = finding.path if finding.file else _POD_TEMPLATE_PREFIX.sub("", finding.path)
    return _hash_parts(finding.rule, finding.file, finding.object, path)


def _iter_step_names(document: object, path: Path) -> Iterator[str]:
    """Yield the steps of a path, with the identifying field of an item instead of its index, or ``[]``."""
    value = document
    for step in path:
        value = field_at(value, step)
        yield f"[{_identify_item(value)}]" if isinstance(step, int) else step


def _identify_item(item: object) -> str:
    """Return the identifying field and value of a list item, the item itself if it is a string, or ""."""
    if isinstance(item, Mapping):
        return next((f"{key}={item[key]}" for key in IDENTIFYING_FIELDS if item.get(key) is not None), "")
    return item if isinstance(item, str) else ""


def _hash_parts(*parts: str) -> str:
    """Return 16 hexadecimal digits of the hash of some texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
