"""Changes of Kueue's objects as JSON patches, which are printed as commands and applied to the objects of a replay."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import Json, JsonDict, JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import KueueWorkload
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.replay.kubectl import Operation, escape_pointer, render_command, to_document
from kschedctl.reports.summary import FixCost

WORKLOAD = "KueueWorkload"
"""The name that this program has for a Workload of Kueue, since Kubernetes has a kind Workload of its own."""
_RESOURCES = {WORKLOAD: "workload.kueue.x-k8s.io"}
_PRINTED_KINDS = {WORKLOAD: "Workload"}
ObjectT = TypeVar("ObjectT", bound=Struct)


class ObjectPatch(NamedTuple):
    """The JSON patch of one object."""

    target: Owner
    """The object; its namespace is empty if the kind has none."""
    operations: tuple[Operation, ...]
    anew: bool = False
    """True if the object has to be deleted and created again, because the changed field is immutable."""

    @property
    def command(self) -> str:
        """The kubectl command that applies the patch, or recreates the object with it if `anew` is True.

        Labels and annotations are set by a merge patch, because a JSON patch fails if the object has none yet. An
        object is never recreated only for these.
        """
        kind, namespace, name = self.target
        scope = ("-n", namespace) if namespace else ()
        words = ("patch", _RESOURCES.get(kind, kind.lower()), *scope, name)
        if all(str(operation["path"]).startswith("/metadata/") for operation in self.operations):
            return render_command(
                *words, "--type=merge", "-p", json.dumps(_set_document_fields(document={}, operations=self.operations))
            )
        words = (*words, "--type=json", "-p", json.dumps(self.operations))
        if not self.anew:
            return render_command(*words)
        return f"{render_command(*words, '--dry-run=client', '-o', 'json')} | kubectl replace --force -f -"

    def to_document(self) -> JsonDict:
        """Return the patch in the form of ``Remedy.changes``."""
        kind, namespace, name = self.target
        document: JsonDict = {"kind": _PRINTED_KINDS.get(kind, kind), "namespace": namespace, "name": name}
        return {**document, "patch": list(self.operations), **({"anew": True} if self.anew else {})}


class AdmissionProposal(NamedTuple):
    """A change that might get quota for a Workload."""

    summary: str
    kind: str
    """A word that tells kinds of fixes apart, such as ``quota``."""
    price: Price
    by: str
    """``author`` of the Workload or ``operator`` of the queues."""
    patches: tuple[ObjectPatch, ...] = ()
    edits: tuple[tuple[str, Struct], ...] = ()
    """The changed objects for the replay, with their kinds: what Kueue makes of the patches."""
    costs: tuple[FixCost, ...] = ()
    needs_values: tuple[str, ...] = ()
    """The fields whose values only the user knows."""
    manifests: tuple[JsonDict, ...] = ()
    """The objects to complete and to create."""


def apply_operations(obj: ObjectT, operations: Iterable[Operation]) -> ObjectT:
    """Return the object with the operations ``add`` and ``replace`` of a JSON patch applied."""
    return convert_builtins(_set_document_fields(to_document(obj), operations), type(obj))


def _set_document_fields(document: Any, operations: Iterable[Operation]) -> Any:
    """Set the fields of a document that the operations name, in place, and return the document.

    Missing objects on the way to a field are created.
    """
    for operation in operations:
        _root, *pointer_parts = str(operation["path"]).split("/")
        *parent_keys, last_key = map(_unescape_pointer_part, pointer_parts)
        container = document
        for key in parent_keys:
            container = container[int(key)] if isinstance(container, list) else container.setdefault(key, {})
        if isinstance(container, list):
            container[int(last_key)] = operation["value"]
        else:
            container[last_key] = operation["value"]
    return document


def _unescape_pointer_part(part: str) -> str:
    """Return a part of a JSON pointer with ~1 and ~0 replaced by the characters that they stand for."""
    return part.replace("~1", "/").replace("~0", "~")


def get_last_key(operation: Operation) -> str:
    """Return the last part of the operation's path without escapes, such as the key of a label."""
    return _unescape_pointer_part(str(operation["path"]).rpartition("/")[2])


def build_operation(path: str, value: Json, *, is_set: bool = True) -> Operation:
    """Build the JSON patch operation that sets a field. ``is_set`` says whether the object has the field already."""
    return {"op": "replace" if is_set else "add", "path": path, "value": value}


def build_metadata_patch(owner: Owner, field: str, key: str, value: str) -> ObjectPatch:
    """Build the patch that sets a label or an annotation. ``field`` is ``labels`` or ``annotations``."""
    return ObjectPatch(owner, (build_operation(f"/metadata/{field}/{escape_pointer(key)}", value, is_set=False),))


def build_workload_target(workload: KueueWorkload) -> Owner:
    """Return the reference by which patches name a Workload of Kueue as their target."""
    return Owner(WORKLOAD, workload.metadata.namespace, workload.metadata.name)


def build_kueue_manifest(kind: str, metadata: JsonObject, spec: JsonObject) -> JsonDict:
    """Build the manifest of an object of Kueue's API v1beta2 from its kind, metadata and spec."""
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": dict(metadata), "spec": dict(spec)}
