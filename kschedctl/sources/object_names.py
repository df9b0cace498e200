"""The names of objects, as far as everything that is told about them relies on: namespace/name is one object.

Upstream: ValidatePathSegmentName in staging/src/k8s.io/apimachinery/pkg/api/validation/path (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kschedctl.api.objects import ObjectMeta, PodMeta
from kschedctl.sources.documents.place import Place


def check_names(meta: ObjectMeta | PodMeta, where: Callable[[], Place], *, may_be_generated: bool) -> None:
    """Raises InputError for an object that has no name, and for names that no API server takes for any kind."""
    if not meta.name and not (may_be_generated and meta.generate_name):
        raise where().error("required", "metadata.name")
    for field, name in (("name", meta.name), ("namespace", meta.namespace)):
        if "/" in name:
            raise where().error(f'"{name[:253]}" may not contain "/"', f"metadata.{field}")


def check_made(names: Iterable[str]) -> None:
    """The names and namespaces in what programs made. Raises ValueError for one with a slash."""
    wrong = next((name for name in names if "/" in name), "")
    if wrong:
        raise ValueError(f'the name "{wrong[:253]}" contains "/"')
