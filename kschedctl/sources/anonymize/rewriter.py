"""A rewriter of objects, which replaces texts field by field in the form in which plugins read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api.objects import Struct
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.api.resource_names import NATIVE_DOMAIN, QUOTA_PREFIX
from kschedctl.scheduler.configuration.document import DEFAULT_SCHEDULER_NAME
from kschedctl.sources.anonymize.expressions import Expressions
from kschedctl.sources.anonymize.kept_texts import KEPT_VALUES, RESOURCE_PREFIXES
from kschedctl.sources.anonymize.labels import ZONE_DELIMITER, Numbers
from kschedctl.sources.anonymize.pseudonyms import INVALID, Pseudonyms

Handler = Callable[["Rewriter", Any, Any], object]
Fields = Mapping[type, Mapping[str, Handler]]
KEPT_NAMES = frozenset({DEFAULT_SCHEDULER_NAME, *(c.metadata.name for c in SYSTEM_CLASSES)})
LONGEST_LABEL_VALUE = 63
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


class Rewriter:
    """A rewriter of objects with pseudonyms.

    ``fields`` has the handlers of fields. Texts in all other fields are kept.
    """

    def __init__(self, fields: Fields, pseudonyms: Pseudonyms, numbers: Numbers, expressions: Expressions) -> None:
        self._fields = fields
        self.name = pseudonyms.name
        self.key = pseudonyms.key
        self.keep = pseudonyms.keep
        self.domain = pseudonyms.domain
        self.numbers, self.expressions = numbers, expressions
        self._rewritten: dict[object, object] = {}

    def rewrite_once(self, obj: Any) -> Any:
        """Rewrite a hashable struct that occurs often, and reuse the result."""
        if obj not in self._rewritten:
            self._rewritten[obj] = self.rewrite_struct(obj)
        return self._rewritten[obj]

    def rewrite_struct(self, obj: Any) -> Any:
        """Rewrite a struct with everything in it."""
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
        """Rewrite the structs in the value of a field without handler."""
        if isinstance(value, Struct):
            return self.rewrite_struct(value)
        if isinstance(value, tuple) and isinstance(value[0], Struct):
            return tuple([self.rewrite_struct(item) for item in value])
        if isinstance(value, dict) and any(isinstance(item, Struct) for item in value.values()):
            return {key: self.rewrite_struct(item) for key, item in value.items()}
        return value

    def object_name(self, text: str) -> str:
        """Replace the name of an object or scheduler, unless it is one that every cluster has."""
        return text if text in KEPT_NAMES else self.name(text)

    def label(self, key: str, value: str) -> str:
        """Replace the value of a label or taint with this key. Compared numbers become ranks."""
        if value in KEPT_VALUES.get(key, ()):
            return value
        rank = self.numbers.replace_number(key, value)
        if rank is not None:
            return rank
        replaced = ZONE_DELIMITER.join(map(self._replace_padded, value.split(ZONE_DELIMITER)))
        return (
            f"{replaced}{INVALID}" if _is_valid_label_value(replaced) and not _is_valid_label_value(value) else replaced
        )

    def _replace_padded(self, text: str) -> str:
        """Replace a text but keep the blanks around it, which are not part of a zone."""
        stripped = text.strip()
        return text.replace(stripped, self.name(stripped)) if stripped else text

    def resource(self, text: str) -> str:
        """Replace the name of a resource, except the prefixes and domains by which the scheduler recognizes it."""
        for prefix in RESOURCE_PREFIXES:
            if text.startswith(prefix):
                rest = text.removeprefix(prefix)
                return prefix + (self.key(rest) if prefix == QUOTA_PREFIX else self.name(rest))
        return self.keep(text) if NATIVE_DOMAIN in text else self.key(text)


def _is_valid_label_value(text: str) -> bool:
    """Return whether the text is a valid label value."""
    return _LABEL_VALUE.fullmatch(text) is not None and len(text) <= LONGEST_LABEL_VALUE
