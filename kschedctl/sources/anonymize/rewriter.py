"""Objects under pseudonyms: rewritten field by field, each text in the form that plugins read in it."""

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
from kschedctl.sources.anonymize.keys import KEPT_VALUES, RESOURCE_PREFIXES
from kschedctl.sources.anonymize.labels import ZONE_DELIMITER, Numbers
from kschedctl.sources.anonymize.pseudonyms import INVALID, Pseudonyms

Handler = Callable[["Rewriter", Any, Any], object]
Fields = Mapping[type, Mapping[str, Handler]]
KEPT_NAMES = frozenset({DEFAULT_SCHEDULER_NAME, *(c.metadata.name for c in SYSTEM_CLASSES)})
LONGEST_LABEL_VALUE = 63
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


class Rewriter:
    """Puts objects under pseudonyms; ``fields``: how each field of a struct is, all others stay."""

    def __init__(self, fields: Fields, pseudonyms: Pseudonyms, numbers: Numbers, expressions: Expressions) -> None:
        self._fields = fields
        self.name, self.key, self.keep, self.domain = (
            pseudonyms.name,
            pseudonyms.key,
            pseudonyms.keep,
            pseudonyms.domain,
        )
        self.numbers, self.expressions = numbers, expressions
        self._once: dict[object, object] = {}

    def once(self, obj: Any) -> Any:
        """A struct under pseudonyms, kept for the next time: for what is hashable, and met often."""
        if obj not in self._once:
            self._once[obj] = self.struct(obj)
        return self._once[obj]

    def struct(self, obj: Any) -> Any:
        """The struct with all that is in it."""
        handlers = self._fields.get(type(obj), {})
        changed = {}
        for field in obj.__struct_fields__:
            value = getattr(obj, field)
            if not value:
                continue
            made = handlers[field](self, value, obj) if field in handlers else self._inner(value)
            if made is not value:
                changed[field] = made
        return replace(obj, **changed) if changed else obj

    def _inner(self, value: object) -> object:
        if isinstance(value, Struct):
            return self.struct(value)
        if isinstance(value, tuple) and isinstance(value[0], Struct):
            return tuple([self.struct(item) for item in value])
        if isinstance(value, dict) and any(isinstance(item, Struct) for item in value.values()):
            return {key: self.struct(item) for key, item in value.items()}
        return value

    def own_name(self, text: str) -> str:
        """The name of an object or a scheduler, unless everybody has one of that name."""
        return text if text in KEPT_NAMES else self.name(text)

    def label(self, key: str, value: str) -> str:
        """A value under a key of a label or taint."""
        if value in KEPT_VALUES.get(key, ()):
            return value
        rank = self.numbers.rank(key, value)
        if rank is not None:
            return rank
        made = ZONE_DELIMITER.join(map(self._padded, value.split(ZONE_DELIMITER)))
        return f"{made}{INVALID}" if _is_label_value(made) and not _is_label_value(value) else made

    def _padded(self, text: str) -> str:
        """With the blanks around it: they are no part of a zone."""
        inner = text.strip()
        return text.replace(inner, self.name(inner)) if inner else text

    def resource(self, text: str) -> str:
        """The name of a resource: what the scheduler counts it as stays."""
        for prefix in RESOURCE_PREFIXES:
            if text.startswith(prefix):
                rest = text.removeprefix(prefix)
                return prefix + (self.key(rest) if prefix == QUOTA_PREFIX else self.name(rest))
        return self.keep(text) if NATIVE_DOMAIN in text else self.key(text)


def _is_label_value(text: str) -> bool:
    return _LABEL_VALUE.fullmatch(text) is not None and len(text) <= LONGEST_LABEL_VALUE
