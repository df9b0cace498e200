"""Which objects findings are reported of: those of a namespace, or with some labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kschedctl.api.json_values import object_at
from kschedctl.api.labels import Selector
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.objects.subject import Subject


@dataclass(frozen=True)
class LintScope:
    """All that is linted is looked at; reported is what the ``namespace`` has, and what the selector matches.

    Objects without a namespace are in none.
    """

    namespace: str = ""
    selector: Selector | None = None

    def of(self, context: LintContext) -> Callable[[Subject], bool]:
        """Whether findings of an object are reported."""
        if self.selector is None:
            return self._in_namespace
        labels = _labels_of_pods(context)
        return lambda subject: self._in_namespace(subject) and self._selected([_own_labels(subject), labels[subject]])

    def _in_namespace(self, subject: Subject) -> bool:
        return self.namespace in ("", subject.namespace)

    def _selected(self, labels: list[Mapping[str, str]]) -> bool:
        return any(map(self.selector.matches, labels)) if self.selector else True


ALL_OBJECTS = LintScope()


def _labels_of_pods(context: LintContext) -> Mapping[Subject, Mapping[str, str]]:
    """The labels of workloads' pods, and those of a cluster's other objects."""
    labels: dict[Subject, Mapping[str, str]] = defaultdict(dict)
    for item in (item for items in context.items.values() for item in items if not item.subject.document):
        labels[item.subject] = item.value.metadata.labels
    return labels | {workload.subject: workload.labels for workload in context.workloads}


def _own_labels(subject: Subject) -> Mapping[str, str]:
    """The labels of its manifest that are text, as all are that the API takes."""
    labels = object_at(subject.document, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}
