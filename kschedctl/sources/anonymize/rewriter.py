"""A rewriter of objects, which replaces strings field by field and keeps the form in which plugins read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.api.resource_names import NATIVE_DOMAIN, QUOTA_PREFIX
from kschedctl.scheduler.configuration.document import DEFAULT_SCHEDULER_NAME
from kschedctl.sources.anonymize.expressions import Expressions
from kschedctl.sources.anonymize.kept_texts import KEPT_VALUES, RESOURCE_PREFIXES
from kschedctl.sources.anonymize.pseudonyms import INVALID_SUFFIX, ZONE_DELIMITER, Numbers, Pseudonyms

Handler = Callable[["Rewriter", Any, Any], object]
Fields = Mapping[type, Mapping[str, Handler]]
KEPT_NAMES = frozenset({DEFAULT_SCHEDULER_NAME, *(system_class.metadata.name for system_class in SYSTEM_CLASSES)})
LONGEST_LABEL_VALUE = 63
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


class Rewriter:
    """A rewriter of objects with pseudonyms.

    ``fields`` maps each struct to the handlers of its fields. Strings in all other fields are kept.
    """

    def __init__(self, fields: Fields, pseudonyms: Pseudonyms, numbers: Numbers, expressions: Expressions) -> None:
        self._fields = fields
        self.replace_name = pseudonyms.replace_name
        self.replace_key = pseudonyms.replace_key
        self.keep_key = pseudonyms.keep_key
        self.replace_domain = pseudonyms.replace_domain
        self.numbers = numbers
        self.expressions = expressions
        self._rewritten: dict[object, object] = {}

    def rewrite_once(self, obj: Any) -> Any:
        """Rewrite a hashable struct, or return the result of an earlier call for an equal struct."""
        if obj not in self._rewritten:
            self._rewritten[obj] = self.rewrite_struct(obj)
        return self._rewritten[obj]

    def rewrite_struct(self, obj: Any) -> Any:
        """Return a copy of the struct with its fields and the fields of nested structs rewritten by handlers.

        The struct itself is returned if nothing changes. Empty fields are left unchanged.
        """
        handlers = self._fields.get(type(obj), {})
        changed = {}
        for field in obj.__struct_fields__:
            value = getattr(obj, field)
            if not value:
                continue
            rewritten = handlers[field](self, value, obj) if field in handlers else self._rewrite_nested(value)
            if rewritten is not value:
                changed[field] = rewritten
        return replace(obj, **changed) if changed else obj

    def _rewrite_nested(self, value: object) -> object:
        """Rewrite the structs in a field's value: a struct, or a tuple or mapping of structs. Other values are kept."""
        if isinstance(value, Struct):
            return self.rewrite_struct(value)
        if isinstance(value, tuple) and isinstance(value[0], Struct):
            return tuple([self.rewrite_struct(item) for item in value])
        if isinstance(value, dict) and any(isinstance(item, Struct) for item in value.values()):
            return {key: self.rewrite_struct(item) for key, item in value.items()}
        return value

    def replace_object_name(self, text: str) -> str:
        """Replace the name of an object or scheduler, unless every cluster has this name."""
        return text if text in KEPT_NAMES else self.replace_name(text)

    def replace_label_value(self, key: str, value: str) -> str:
        """Replace the value of a label or taint with this key.

        Well-known values are kept. Numbers that are compared by order are replaced by their ranks, and in a list of
        zones, each zone is replaced separately. The replacement of an invalid value is invalid as well.
        """
        if value in KEPT_VALUES.get(key, ()):
            return value
        rank = self.numbers.replace_with_rank(key, value)
        if rank is not None:
            return rank
        replaced = ZONE_DELIMITER.join(map(self._replace_padded_name, value.split(ZONE_DELIMITER)))
        if _is_valid_label_value(replaced) and not _is_valid_label_value(value):
            return f"{replaced}{INVALID_SUFFIX}"
        return replaced

    def _replace_padded_name(self, text: str) -> str:
        """Replace a string, but keep the blanks around it, since a zone in a list may have some."""
        stripped = text.strip()
        return text.replace(stripped, self.replace_name(stripped)) if stripped else text

    def replace_resource(self, text: str) -> str:
        """Replace the name of a resource.

        A prefix or domain by which the scheduler recognizes the resource is kept.
        """
        for prefix in RESOURCE_PREFIXES:
            if text.startswith(prefix):
                name = text.removeprefix(prefix)
                # A quota's ``requests.`` is followed by the name of another resource.
                return prefix + (self.replace_key(name) if prefix == QUOTA_PREFIX else self.replace_name(name))
        return self.keep_key(text) if NATIVE_DOMAIN in text else self.replace_key(text)


def _is_valid_label_value(text: str) -> bool:
    """Return whether Kubernetes accepts the text as a label value."""
    return _LABEL_VALUE.fullmatch(text) is not None and len(text) <= LONGEST_LABEL_VALUE


def replace_object_name(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of an object or scheduler, unless every cluster has this name."""
    return rewriter.replace_object_name(value)


def replace_object_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace the names of objects, except names that every cluster has."""
    return tuple(map(rewriter.replace_object_name, value))


def replace_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace every string of a list."""
    return tuple(map(rewriter.replace_name, value))


def replace_key(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the key of a label or taint unless it is well known."""
    return rewriter.replace_key(value)


def replace_keys(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace the keys of labels, except well-known ones."""
    return tuple(map(rewriter.replace_key, value))


def replace_labels(rewriter: Rewriter, value: Mapping[str, str], obj: object) -> dict[str, str]:
    """Replace the keys and values of labels."""
    return {
        rewriter.replace_key(key): rewriter.replace_label_value(key, label_value) for key, label_value in value.items()
    }


def replace_requirement_values(rewriter: Rewriter, value: tuple[str, ...], obj: Any) -> tuple[str, ...]:
    """Replace the values of a requirement on a label, as values of the requirement's key."""
    return tuple(rewriter.replace_label_value(obj.key, label_value) for label_value in value)


def replace_resource(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the name of a resource, except the parts by which the scheduler recognizes it."""
    return rewriter.replace_resource(value)


def replace_resource_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace the names in a list of resources."""
    return tuple(map(rewriter.replace_resource, value))


def replace_resources(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace the names of resources, and keep their amounts."""
    return {rewriter.replace_resource(name): amount for name, amount in value.items()}


def drop_text(rewriter: Rewriter, value: object, obj: object) -> str:
    """Replace any value by an empty text."""
    return ""
