"""Rules about the PriorityClasses themselves."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import PriorityClass
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, RuleProfile
from kschedctl.text.counts import agreeing

HIGHEST_USER_DEFINABLE = 1_000_000_000
RESERVED_PREFIX = "system-"
_NEGATIONS = ("non-", "non", "not ", "no-", "no ", "never-", "never ", "without ")
"""Words that turn one of ``PREEMPTING_WORDS`` into its opposite."""
PREEMPTING_WORDS = ("critical", "urgent", "preempt", "evict")


def find_reserved_priority_values(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses with a value above 1,000,000,000, which is reserved for the system's classes."""
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        is_reserved = priority_class.metadata.name.startswith(RESERVED_PREFIX)
        if priority_class.value > HIGHEST_USER_DEFINABLE and not is_reserved:
            yield subject.build_problem(("value",), f"{priority_class.value:,} is above 1,000,000,000")


PC_VALUE_OVER_1E9 = Rule(
    "pc-value-over-1e9",
    ERROR,
    find_reserved_priority_values,
    summary="PriorityClass value above 1,000,000,000",
    why="The API server rejects the class: higher values are reserved for the system's own classes.",
    fix="Choose a value of at most 1000000000",
    source=doc.PRIORITY,
)


def find_reserved_class_names(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses whose name begins with system-, except the classes that Kubernetes itself creates."""
    system_classes = {(c.metadata.name, c.value) for c in SYSTEM_CLASSES}
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        name = priority_class.metadata.name
        is_system_class = (name, priority_class.value) in system_classes and not priority_class.global_default
        if name.startswith(RESERVED_PREFIX) and not is_system_class:
            yield subject.build_problem(("metadata", "name"), f"{name}: the prefix system- is reserved")


PC_SYSTEM_PREFIX = Rule(
    "pc-system-prefix",
    ERROR,
    find_reserved_class_names,
    summary="PriorityClass name that begins with system-",
    why="The prefix is reserved: the API server rejects every such class except its own two.",
    fix="Give the class another name",
    source=doc.PRIORITY,
)


def find_several_global_defaults(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses that are the global default although another class of the cluster is one too."""
    defaults = [item for item in context.list_all_items(PriorityClass) if item.value.global_default]
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        if not priority_class.global_default:
            continue
        coexisting_defaults = context.list_coexisting_values(subject, defaults)
        names = sorted({c.metadata.name for c in coexisting_defaults})
        if len(names) > 1:
            lowest = min(coexisting_defaults, key=lambda c: c.value).metadata.name
            message = (
                f"{len(names)} classes are the global default ({', '.join(names)}); {lowest} would apply as the lowest"
            )
            yield subject.build_problem(("globalDefault",), message)


PC_MULTIPLE_GLOBAL_DEFAULT = Rule(
    "pc-multiple-global-default",
    ERROR,
    find_several_global_defaults,
    summary="More than one PriorityClass is the global default",
    why="Admission denies the second one; if a race let both in, the one with the lowest value silently applies.",
    fix="Set globalDefault: true on one class only",
    source=f"{doc.PRIORITY}; https://github.com/kubernetes/kubernetes/issues/59987",
)


def find_highest_global_default(context: LintContext) -> Iterator[Problem]:
    """Find global default PriorityClasses whose value no other class exceeds.

    The system's classes do not count.
    """
    classes = [i for i in context.list_all_items(PriorityClass) if not i.subject.name.startswith(RESERVED_PREFIX)]
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        if not priority_class.global_default:
            continue
        other_values = [c.value for c in context.list_coexisting_values(subject, classes) if not c.global_default]
        if not other_values or priority_class.value < max(other_values):
            continue
        # Classes below 0 are for placeholder pods, which only reserve room.
        only_placeholders = priority_class.value <= 0 and all(value < 0 for value in other_values)
        if not only_placeholders:
            message = (
                f"pods without a class get priority {priority_class.value:,}, but the highest other class has only "
                f"{max(other_values):,}"
            )
            yield subject.build_problem(("globalDefault",), message)


PC_GLOBAL_DEFAULT_HIGH = Rule(
    "pc-global-default-high",
    WARNING,
    find_highest_global_default,
    summary="The global default outranks all other classes",
    why="Pods without a class are scheduled before pods with a class, and may preempt them.",
    fix="Give the global default a lower value than the classes for important pods",
    source=doc.PRIORITY,
)


def find_duplicate_priority_values(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses with the same value as another class.

    Classes with the same value are reported once, at the linted class whose name comes first.
    """
    items_by_value: dict[int, list[TypedObject[PriorityClass]]] = {}
    for item in context.list_all_items(PriorityClass):
        items_by_value.setdefault(item.value.value, []).append(item)
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        equal_items = [
            item for item in items_by_value[priority_class.value] if context.variants.can_coexist(subject, item.subject)
        ]
        other_names = sorted({item.subject.name for item in equal_items} - {subject.name})
        is_reported = any(item.subject.location and item.subject.name < subject.name for item in equal_items)
        if other_names and not is_reported:
            message = f"{', '.join(other_names)} {agreeing(len(other_names), 'has', 'have')} the same value"
            yield subject.build_problem(("value",), f"{message}, {priority_class.value:,}")


PC_DUPLICATE_VALUE = Rule(
    "pc-duplicate-value",
    NOTE,
    find_duplicate_priority_values,
    summary="Two PriorityClasses with the same value",
    why="Two names suggest an order between their pods, but to the scheduler they are equal.",
    fix="Give the classes different values, or keep one of them",
    source=doc.PRIORITY,
    profile=RuleProfile.STRICT,
)


def find_classes_without_description(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses without a description.

    Finds nothing in a cluster in which no class has a description, as snapshots may leave descriptions out.
    """
    classes = context.list_linted_objects(PriorityClass)
    if not any(subject.document or priority_class.description for subject, priority_class in classes):
        return
    for subject, priority_class in classes:
        if not priority_class.description and not priority_class.metadata.name.startswith(RESERVED_PREFIX):
            yield subject.build_problem((), "it has no description of which pods should use it")


PC_NO_DESCRIPTION = Rule(
    "pc-no-description",
    NOTE,
    find_classes_without_description,
    summary="PriorityClass without a description",
    why="Users cannot tell when to use it.",
    fix="Describe in description which pods should use the class",
    source=doc.PRIORITY,
    profile=RuleProfile.STRICT,
)


def find_urgent_classes_without_preemption(context: LintContext) -> Iterator[Problem]:
    """Find PriorityClasses with preemptionPolicy Never whose name or description suggests preemption."""
    for subject, priority_class in context.list_linted_objects(PriorityClass):
        if priority_class.preemption_policy != "Never":
            continue
        text = f"{priority_class.metadata.name} {priority_class.description}".lower()
        for word in PREEMPTING_WORDS:
            if word in text and not any(negation + word in text for negation in _NEGATIONS):
                message = f'described as "{word}", but with preemptionPolicy Never its pods preempt no others'
                yield subject.build_problem(("preemptionPolicy",), message)
                break


PC_NEVER_BUT_URGENT = Rule(
    "pc-never-but-urgent",
    NOTE,
    find_urgent_classes_without_preemption,
    summary="preemptionPolicy Never on a class whose name or description suggests preemption",
    why="Its pods go to the head of the queue but wait, with growing backoff, until other pods leave.",
    fix="Remove preemptionPolicy: Never, or make clear in name and description that the class does not preempt",
    source=f"{doc.PRIORITY}#non-preempting-priority-class",
)
