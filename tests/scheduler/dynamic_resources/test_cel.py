"""CEL selectors against upstream's own cases (dynamic-resource-allocation/cel/compile_test.go; v1.36) and the
examples of the Kubernetes documentation on device selectors."""

from __future__ import annotations

import pytest

from kschedctl.api.objects import Device, DeviceAttribute, DeviceCapacity
from kschedctl.cel.errors import CompileError
from kschedctl.scheduler.plugins.dynamic_resources.cel import DeviceInput, EvaluationError, compile_selector
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import CostAllowance

D = 'device.attributes["dra.example.com"]'
C = 'device.capacity["dra.example.com"]'
DRIVER = "dra.example.com"
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def build_device(multiple=None, capacity=None, **attributes):
    kinds = {bool: "bool_", int: "int_", str: "string", tuple: "strings"}
    typed = {
        name.replace("__", "/").replace("_io", ".io"): value
        if isinstance(value, DeviceAttribute)
        else DeviceAttribute(**{kinds[type(value)]: value})
        for name, value in attributes.items()
    }
    amounts = {name: DeviceCapacity(text) for name, text in (capacity or {}).items()}
    return Device("device", typed, amounts, allow_multiple_allocations=multiple)


def build_version(text):
    return DeviceAttribute(version=text)


NONE = build_device()
NAME = build_device(name=True)
SERVICES = build_device(services="some_example_value")
ALL = build_device(capacity={"quantity": "1Mi"}, bool=True, int=1, string="fish", version=build_version("1.0.0"))
GPU = build_device(
    True,
    {"memory": "40Gi"},
    model="A100",
    index=3,
    driverVersion=build_version("1.10.0"),
    other_io__zone="z",
    ip="10.2.3.4",
)

MATCHES = {
    "true": ("true", NONE, True),
    "false": ("false", NONE, False),
    "domain-check-negative": ('"no-such-domain" in device.attributes', NONE, False),
    "domain-check-positive": (f'"{DRIVER}" in device.attributes', NAME, True),
    "real-driver-name": (f'device.driver == "{DRIVER}"', NONE, True),
    "driver-name-qualifier": (f"{D}.name", NAME, True),
    "driver-name-qualifier-map-lookup": (f'{D}["name"]', NAME, True),
    "bind": (f"cel.bind(dra, {D}, dra.name)", NAME, True),
    "int": (f"{D}.name > 0", build_device(name=1), True),
    "string": (f'{D}.name == "fish"', build_device(name="fish"), True),
    "version": (f'{D}.name.isGreaterThan(semver("0.0.1"))', build_device(name=build_version("1.0.0")), True),
    "version_v": (
        f'{D}.name.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)',
        build_device(name=build_version("1.0.0")),
        True,
    ),
    "quantity": (f'{C}.name.isGreaterThan(quantity("1Ki"))', build_device(capacity={"name": "1Mi"}), True),
    "check-positive": (
        f'"name" in {C} && {C}.name.isGreaterThan(quantity("1Ki"))',
        build_device(capacity={"name": "1Mi"}),
        True,
    ),
    "check-negative": (f'!("name" in {C}) || {C}.name.isGreaterThan(quantity("1Ki"))', NONE, True),
    "all": (
        f'\n{C}.quantity.isGreaterThan(quantity("1Ki")) &&\n{D}.bool &&\n{D}.int > 0 &&\n{D}.string == "fish" &&\n'
        f'{D}.version.isGreaterThan(semver("0.0.1")) &&\n{C}["quantity"].isGreaterThan(quantity("1Ki")) &&\n'
        f'{D}["bool"] &&\n{D}["int"] > 0 &&\n{D}["string"] == "fish" &&\n'
        f'{D}["version"].isGreaterThan(semver("0.0.1"))\n',
        ALL,
        True,
    ),
    "check_attribute_domains": (f'device.attributes.exists_one(x, x == "{DRIVER}")', SERVICES, True),
    "check_attribute_ids": (f'{D}.exists_one(x, x == "services")', SERVICES, True),
    "split_attribute": (f'{D}.services.split("example").size() >= 2', SERVICES, True),
    "regexp_attribute": (f'{D}.services.matches("[^a]?sym")', build_device(services="asymetric"), True),
    "check_capacity_domains": (
        f'device.capacity.exists_one(x, x == "{DRIVER}")',
        build_device(capacity={"memory": "1Mi"}),
        True,
    ),
    "check_capacity_ids": (f'{C}.exists_one(x, x == "memory")', build_device(capacity={"memory": "1Mi"}), True),
    "allow_multiple_allocations": ("device.allowMultipleAllocations == true", build_device(True), True),
    "allow_multiple_allocations_default": ("device.allowMultipleAllocations == false", NONE, True),
    # from the documentation, and the functions that it lists
    "docs-large-gpu": (f'device.driver == "{DRIVER}" && {C}.memory.compareTo(quantity("40Gi")) >= 0', GPU, True),
    "docs-model": (f'{D}.model.startsWith("A") || {D}.index == 1', GPU, True),
    "docs-in": (f'{D}.model in ["A100", "B200"]', GPU, True),
    "docs-version": (f'{D}.driverVersion.isGreaterThan(semver("1.9.0"))', GPU, True),
    "optional": (f'{D}.?model.orValue("none") == "A100" && !{D}.?missing.hasValue()', GPU, True),
    "has": (f"has({D}.model) && !has({D}.missing)", GPU, True),
    "other-domain": ('device.attributes["other.io"].zone == "z"', GPU, True),
    "two-variables": (f'{D}.exists(name, value, name == "index" && value == 3)', GPU, True),
    "quantity-arithmetic": (f'{C}.memory.sub(quantity("8Gi")).compareTo(quantity("32Gi")) == 0', GPU, True),
    "quantity-equality": (f'{C}.memory == quantity("40960Mi")', GPU, True),
    "quantity-integer": ('quantity("50k").add(20).asInteger() == 50020', NONE, True),
    "version-parts": (f"{D}.driverVersion.major() == 1 && {D}.driverVersion.minor() == 10", GPU, True),
    "sets": (f'sets.contains(["A100", "H100"], [{D}.model])', GPU, True),
    "find": (f'{D}.model.find("[0-9]+") == "100"', GPU, True),
    "findAll": ('"a1b22c".findAll("([0-9])+") == ["1", "22"]', NONE, True),
    "lists": ("[1, 2, 3].sum() == 6 && [1, 2].isSorted() && [3, 1].min() == 1 && [7, 8].indexOf(8) == 1", NONE, True),
    "texts": (f'{D}.model.lowerAscii().replace("a", "b") == "b100" && {D}.model.substring(1) == "100"', GPU, True),
    "format": (f'"%s-%d".format([string({D}.model), int({D}.index)]) == "A100-3"', GPU, True),
    "cidr": (f'cidr("10.0.0.0/8").containsIP({D}.ip) && ip({D}.ip).family() == 4', GPU, True),
    "ip-kinds": (
        'ip("10.0.0.1").isGlobalUnicast() && ip("::1").isLoopback() && ip("fe80::1").isLinkLocalUnicast() && '
        'ip("224.0.0.9").isLinkLocalMulticast() && ip("0.0.0.0").isUnspecified() && !isIP("10.0.0")',
        NONE,
        True,
    ),
    "cidr-parts": (
        'cidr("10.1.2.3/16").masked() == cidr("10.1.0.0/16") && cidr("10.1.2.3/16").ip() == ip("10.1.2.3") && '
        'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && cidr("10.0.0.0/8").prefixLength() == 8',
        NONE,
        True,
    ),
    "canonical": ('ip.isCanonical("::1") && !ip.isCanonical("0:0::1")', NONE, True),
    "unknown-domain-is-empty": ('"a" in device.attributes["b"] || "b" in device.attributes', NONE, False),
}
LISTS = {
    "list-size": (f"{D}.names.size() == 2", build_device(names=("fish", "bird")), True),
    "macro-on-list": (f'{D}.names.all(x, x != "")', build_device(names=("fish", "bird")), True),
    "includes-list": (f'{D}.names.includes("fish")', build_device(names=("fish", "bird")), True),
    "includes-scalar": (f'{D}.names.includes("bird")', build_device(names="fish"), False),
    "includes-version": (
        f'{D}.v.includes(semver("2.0.0"))',
        build_device(v=DeviceAttribute(versions=("1.0.0", "2.0.0"))),
        True,
    ),
    "in": (f"1 in {D}.names", build_device(names=DeviceAttribute(ints=(1, 2, 3))), True),
}
COMPILE_ERRORS = {
    "syntax-error": ("?!", "Syntax error"),
    "type-error": ("1", "must evaluate to bool or the unknown type, not int"),
    "includes-on-any": (f"{D}.name.exists(x, x > 0)", "cannot be range of a comprehension"),
    "undeclared": (
        "noSuchVar",
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'noSuchVar' (in container '')\n"
        " | noSuchVar\n | ^",
    ),
    "undeclared-parts": (
        'true && devise.attributes["x"].y',
        "<input>:1:9: undeclared reference to 'devise' (in container '')\n"
        ' | true && devise.attributes["x"].y\n | ........^',
    ),
    "undefined-field": (f"{D}.x == 1 ||\n device.nosuch", "<input>:2:8: undefined field 'nosuch'"),
    "mixed-types": (f'{C}.memory.isLessThan(semver("1.0.0"))', "found no matching overload for 'isLessThan'"),
    "deep": ("(" * 300 + "true" + ")" * 300, "recursion"),
    "long": ("true || " * 15000 + "true", "expression code point size exceeds limit: size: 120004, limit 100000"),
}
RUNTIME_ERRORS = {
    "lookup-identifier": (
        'device.attributes["no-such-domain"].noSuchAttr.isGreaterThan(quantity("0"))',
        NONE,
        "no such key: noSuchAttr",
    ),
    "lookup-map": (
        'device.attributes["no-such-domain"]["noSuchAttr"].isGreaterThan(quantity("0"))',
        NONE,
        "no such key: noSuchAttr",
    ),
    "list-without-feature": (f"{D}.names", build_device(names=("a",)), "attribute names: unsupported attribute value"),
    "not-bool": (f"{D}.model", GPU, "CEL result of type string could not be converted to bool"),
    "wrong-type": (f'{D}.index.startsWith("x")', GPU, "no such overload"),
    "bad-version": (f'{D}.model.compareTo(semver("one")) == 0', GPU, "No Major.Minor.Patch elements found"),
    "division": (f"10 / ({D}.index - 3) > 0", GPU, "division by zero"),
    "expensive": (
        "".join(f"{TEN}.all({x}, " for x in "abcdefg") + "int('1'.find('[0-9]*')) < 100" + ")" * 7,
        NONE,
        "actual cost limit exceeded",
    ),
    "growing-text": (
        '"a"' + '.replace("a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")' * 8 + '.contains("b")',
        NONE,
        "actual cost limit exceeded",
    ),
}


def parametrize_cases(cases):
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


@parametrize_cases(MATCHES)
@pytest.mark.parametrize("lists", [False, True])
def test_matches(case, lists):
    expression, found, want = case
    assert compile_selector(expression, lists).matches(DeviceInput.from_device(found, DRIVER, lists=lists)) is want


@parametrize_cases(LISTS)
def test_list_attributes(case):
    expression, found, want = case
    assert compile_selector(expression, True).matches(DeviceInput.from_device(found, DRIVER, lists=True)) is want


@parametrize_cases(COMPILE_ERRORS)
def test_compile_errors(case):
    expression, want = case
    with pytest.raises(CompileError) as caught:
        compile_selector(expression)
    assert want in str(caught.value)


@parametrize_cases(RUNTIME_ERRORS)
def test_runtime_errors(case):
    expression, found, want = case
    with pytest.raises(EvaluationError) as caught:
        compile_selector(expression).matches(DeviceInput.from_device(found, DRIVER, lists=False))
    assert want in str(caught.value)


def test_lists_have_a_maximum_length():
    found = build_device(names=tuple(f"value-{i}" for i in range(49)))
    with pytest.raises(EvaluationError, match="longer than 48 values"):
        compile_selector(f'{D}.names.includes("value-49")', True).matches(
            DeviceInput.from_device(found, DRIVER, lists=True)
        )


def test_total_cost_of_selectors_is_limited():
    loops = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all"
    selector = compile_selector("".join(f"{loops}(x{i}, " for i in range(4)) + "x0 < 11" + ")" * 4)
    allowance = CostAllowance(remaining=compute_selector_cost(selector))
    seen = DeviceInput.from_device(NONE, DRIVER, lists=False)
    assert selector.matches(seen, allowance)
    assert selector.matches(seen, allowance)
    with pytest.raises(EvaluationError, match="given up: the device selectors cost too much"):
        selector.matches(seen, allowance)


def test_cheap_selectors_do_not_use_up_the_allowance():
    allowance = CostAllowance()
    compile_selector("true").matches(DeviceInput.from_device(NONE, DRIVER, lists=False), allowance)
    assert allowance.remaining == CostAllowance().remaining


def compute_selector_cost(selector):
    selector.matches(DeviceInput.from_device(NONE, DRIVER, lists=False))
    return selector.program.cost
