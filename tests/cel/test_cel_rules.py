"""Check the results of CEL expressions rule by rule (cel-go v0.26 and apiserver/pkg/cel of v1.36)."""

from __future__ import annotations

import pytest

from kschedctl.cel.compilation.compiler import compile_expression
from kschedctl.cel.errors import AbortedError, CelError, CompileError
from kschedctl.cel.types import ANY, STRING, parse_type
from kschedctl.cel.values import DefaultMap, Map

DEVICE = "kubernetes.DRADevice"
STRUCTS = {DEVICE: {"name": STRING, "attributes": parse_type("map(string, map(string, any))")}}
VARIABLES = {"thing": parse_type(DEVICE), "unknown": ANY}
ATTRIBUTES = DefaultMap({"known": Map({"model": "a100", "count": 1}.items())}.items())
THING = Map({"name": "it", "attributes": ATTRIBUTES}.items())


def evaluate(expression, unknown=None):
    return compile_expression(expression, VARIABLES, STRUCTS).evaluate(THING, unknown)


TRUE = {
    "numbers of different types are ordered": "1 < 1.5 && 1u < 2 && 2u >= 1.5 && -1 < 1u && 1.5 > 1u",
    "values of unknown type equal across numbers": "dyn(1) == 1.0 && dyn([1, 2]) == dyn([1.0, 2.0]) && dyn(1) != '1'",
    "NaN equals nothing": "0.0 / 0.0 != 0.0 / 0.0",
    "division and rest go towards zero": "-10 / 3 == -3 && -10 % 3 == -1 && 10 % -3 == 1",
    "fields of an object are there": "has(thing.name) && has(thing.attributes) && thing != null",
    "an unknown domain is an empty map": 'thing.attributes["x"].size() == 0 && !("x" in thing.attributes)',
    "through an alias too": 'cel.bind(a, thing.attributes, a["x"].size() == 0)',
    "and as an item": '[thing.attributes].all(a, !("none" in a["x"]))',
    "every domain can be selected": "has(thing.attributes.x) && !has(thing.attributes.known.x)",
    "a binding nobody asks for is not computed": "cel.bind(x, 1 / 0, true)",
    "an error is absorbed by what decides": "(1 / 0 == 1 || true) && !(1 / 0 == 1 && false)",
    "a comprehension absorbs it too": "[1, 0].exists(x, 1 / x == 1) && ![0, 1].all(x, 1 / x == 2)",
    "an operand that is no bool is an error": "dyn(1) || true",
    "of equal keys the last wins": "{'a': 1, 'a': 2}.a == 2 && {1.5: 'x'}[1.5] == 'x'",
    "keys are found across integers": "dyn({1: 'x'})[1.0] == 'x' && dyn({1u: 'x'})[1] == 'x'",
    "an index may be any whole number": "[1, 2][dyn(1.0)] == 2 && [1, 2][dyn(1u)] == 2",
    "findAll keeps empty matches": '"abc".findAll("").size() == 4 && "baac".findAll("a*") == ["", "aa", ""]',
    "find gives the whole match": '"xaby".find("(a)(b)") == "ab" && "x".find("y") == ""',
    "positions past the end are nowhere": '"abc".indexOf("a", 20) == -1 && "x".lastIndexOf("x", 1) == -1',
    "trim is about white space of Unicode": r'"\u001ca\u2003".trim() == "\u001ca" && "\u0085a".trim() == "a"',
    "texts are bool in Go's ways": 'bool("T") && bool("1") && !bool("f") && !bool("FALSE")',
    "doubles print as Go's %g": 'string(123456789.0) == "1.23456789e+08" && string(1e5) == "100000" && '
    'string(0.00001) == "1e-05"',
    "as hexadecimal they are read": 'double("0x1p4") == 16.0 && double("inf") > 1.0',
    "%s of a double is Go's g": '"%s".format([1e30]) == "1e+30" && "%s".format([1.0 / 0.0]) == "+Inf"',
    "%f groups thousands": '"%f".format([1234567.5]) == "1,234,567.500000" && "%.1f".format([0.25]) == "0.2"',
    "%e has a power of ten": '"%e".format([1234.5]) == "1.234500\\u202f\\u00d7\\u202f10\\u2070\\u00b3"',
    "zero has no sign": '"%f".format([-0.0]) == "0.000000"',
    "within lists types are names": '"%s".format([[type(1)]]) == "[int]"',
    "within lists texts are quoted": '"%s".format([[1, 2, "a"]]) == "[1, 2, \\"a\\"]"',
    "within lists doubles have six places": '"%s".format([[1.5]]) == "[1.500000]"',
    "maps print sorted": r'"%s".format([{"b": 1, "a": 2}]) == "{\"a\":2, \"b\":1}" && '
    '"%s".format([{1: true}]) == "{1:true}"',
    "%s takes bytes, times and types": '"%s %s %s".format([b"x", duration("90s"), type(1)]) == "x 90s int"',
    "%x of texts and bytes": r'"%x".format(["hi"]) == "6869" && "%X".format([b"\xff"]) == "FF"',
    "%x of negative numbers": '"%x".format([-255]) == "-ff" && "%o".format([-8]) == "-10"',
    "versions order identifiers": 'semver("1.0.0-rc.a").isGreaterThan(semver("1.0.0-rc.10"))',
    "parts of versions wrap": 'semver("9223372036854775808.0.0").major() < 0',
    "versions have 64 bits": '!isSemver("18446744073709551616.0.0") && !isSemver("1.0.0-18446744073709551616")',
    "a CIDR has a length": '!isCIDR("10.0.0.0") && !isCIDR("10.0.0.0/08") && !isCIDR("::ffff:1.2.3.4/96")',
    "any exponent makes a quantity": 'isQuantity("1e1000")',
    "thousandths are no integer": '!quantity("1000m").isInteger() && quantity("1Ki").asInteger() == 1024',
    "slices": "[1, 2, 3].slice(1, 3) == [2, 3] && [1].slice(1, 1) == []",
    "flatten": "[[1], [2, 3]].flatten() == [1, 2, 3] && dyn([[1], [2]]).flatten(0).size() == 2",
    "sort": '["b", "a"].sort() == ["a", "b"] && [1, 2, 3].sortBy(x, -x) == [3, 2, 1]',
    "distinct and reverse": "[1, 2, 1].distinct() == [1, 2] && [1, 2].reverse() == [2, 1]",
    "ranges": "lists.range(3) == [0, 1, 2] && lists.range(-1) == []",
    "sums": '[duration("1s"), duration("2s")].sum() == duration("3s") && [].sum() == 0 && [1.5, 2.5].sum() == 4.0',
    "first and last": "[1, 2].first() == optional.of(1) && ![].last().hasValue()",
    "maps are transformed": '{"a": 1}.transformMap(k, v, v + 1) == {"a": 2} && '
    '{"a": 1}.transformMapEntry(k, v, {v: k}) == {1: "a"}',
    "lists are transformed": "[1, 2, 3].transformList(i, v, i > 0, v * i) == [2, 6]",
    "two variables": "[1, 2].all(i, v, v == i + 1) && [1, 2].existsOne(i, v, v == 2)",
    "optional entries": '[?optional.of(1), ?optional.none()] == [1] && {?"a": optional.none()} == {}',
    "unwrap": "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(1)].unwrapOpt() == [1]",
    "optional selections go on": '{"a": {"b": 1}}.?a.b == optional.of(1) && !{"a": {"b": 1}}.?x.b.hasValue()',
    "optMap and optFlatMap": "optional.of(1).optMap(x, x + 1) == optional.of(2) && "
    "!optional.of(1).optFlatMap(x, optional.none()).hasValue()",
    "addresses print": 'string(ip("2001:DB8::1")) == "2001:db8::1" && string(cidr("10.1.2.3/8")) == "10.1.2.3/8"',
    "URLs": 'url("https://a.example.com:80/x%20y?k=v&k=w").getQuery() == {"k": ["v", "w"]} && '
    'isURL("/path") && !isURL("a b")',
    "URLs have parts": 'url("https://[::1]:80/x y").getHostname() == "::1" && '
    'url("https://a/x y").getEscapedPath() == "/x%20y"',
    "named formats": 'format.dns1123Label().validate("ABC").value().size() == 1 && !format.named("nope").hasValue()',
    "a format of dates": 'format.date().validate("2024-02-30").hasValue()',
    "a format of bytes": '!format.byte().validate("aGk=").hasValue()',
    "well-known messages": 'google.protobuf.Duration{seconds: 1} == duration("1s") && google.protobuf.Struct{} == {} '
    "&& google.protobuf.Int32Value{value: 5} == 5",
    "types are values": "type(1) == int && type(duration('1s')) == google.protobuf.Duration && type({}) == map",
    "times in zones": 'timestamp("2024-02-29T12:00:00Z").getHours("+02:00") == 14 && '
    'timestamp("2024-02-29T12:00:00Z").getDayOfYear() == 59',
    "times keep their offset": 'string(timestamp("2024-01-01T00:00:00+02:00")) == "2024-01-01T00:00:00+02:00"',
    "literals": r'0x1F == 31 && .5 == 0.5 && 1e3 == 1000.0 && "\x41\101\u0041" == "AAA" && r"\d" == "\\d" && '
    r'b"é" == b"\xc3\xa9" ',
    "the innermost name counts": "cel.bind(thing, 1, thing == 1) && [thing].all(thing, thing.name == 'it')",
    "minus twice is nothing": "--1 == 1 && !!true && - -1 == 1",
    "a thing in a list passes for equal": 'dyn([semver("1.0.0")]) == dyn(["x"])',
    "a thing never equals": 'dyn(semver("1.0.0")) != "1.0.0" && dyn("1.0.0") != semver("1.0.0")',
    "nothing is in an empty list": "!(1 / 0 in [])",
    "includes": '"a".includes("a") && [1, 2].includes(2) && ![1].includes("a")',
    "strings of v2 have no reverse, lists do": "[1].reverse() == [1]",
}
COMPILE_ERRORS = {
    "lists are of one type": ('1 in [1, "a"]', "<input>:1:10: expected type 'int' but found 'string'"),
    "numbers too": ("[1, 1.0] == []", "expected type 'int' but found 'double'"),
    "what is unknown is another type": ('[1, dyn("a")].size() == 2', "expected type 'int' but found 'dyn'"),
    "null is one": ("[null, 1].size() == 2", "expected type 'null' but found 'int'"),
    "keys are of one type": ('{1: 1, "a": 1}.size() == 2', "<input>:1:8: expected type 'int' but found 'string'"),
    "inner lists are": ('[[1], ["a"]].size() == 2', "expected type 'list(int)' but found 'list(string)'"),
    "an object has no index": ('thing["name"] == ""', "found no matching overload for '_[_]'"),
    "an object has its fields": ("thing.foo == 1", "<input>:1:6: undefined field 'foo'"),
    "no == across types": ("1 == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"),
    "%d takes integers": ('"%d".format([1.5]) == ""', "decimal clause can only be used on integers, was given double"),
    "%f takes doubles": ('"%f".format([1]) == ""', "fixed-point clause can only be used on doubles, was given int"),
    "of an attribute nothing is known": (
        'thing.attributes["known"].model == "%s".format([thing.attributes["known"].model])',
        "was given google.protobuf.Any",
    ),
    "values have clauses": (
        '"%s".format([1, 2]) == ""',
        "too many arguments supplied to string.format (expected 1, got 2)",
    ),
    "clauses have values": ('"%s %s".format([1]) == ""', "index 1 out of range"),
    "verbs are known": ('"%z".format([1]) == ""', 'unrecognized formatting clause "z"'),
    "a verb follows %": ('"%".format([1]) == ""', "unexpected end of string"),
    "texts have no reverse": ('"abc".reverse() == "cba"', "found no matching overload for 'reverse'"),
    "math is not there": ("math.ceil(1.2) == 2.0", "undeclared reference to 'math'"),
    "constants are converted beforehand": (
        'false && int("x") == 1',
        "program instantiation failed: type conversion error",
    ),
    "constant times are": ('false && duration("1d") == duration("1s")', "<input>:1:19: invalid duration argument"),
    "null is no time": ("timestamp(null) == timestamp(0)", "<input>:1:11: invalid timestamp argument"),
    "constant patterns are compiled": (
        'false && "a".find("[") == ""',
        "program instantiation failed: error parsing regexp",
    ),
    "patterns of matches": ('"a".matches("(?=a)")', "<input>:1:13: invalid matches argument"),
    "has() takes a field": ("has(thing)", "<input>:1:5: invalid argument to has() macro"),
    "variables have names": ("[1].all(1, true)", "argument must be a simple name"),
    "two variables two names": ("[1].all(i, i, true)", "duplicate variable name: i"),
    "reserved words": ("package == 1", "<input>:1:1: reserved identifier: package"),
    "an escape is one of CEL's": (r'"\q" == "q"', "Syntax error: token recognition error"),
    "bytes have no code points": (r'b"\u00e9" == b""', "unable to unescape string"),
    "64 bits": ("9223372036854775808 > 0", "invalid int literal"),
}
RUNTIME_ERRORS = {
    "no such key": ('thing.attributes["known"].foo == 1', "no such key: foo"),
    "an unknown type is told when it runs": ("unknown.startsWith('a')", "no such overload"),
    "a thing equals its like only": ('dyn(semver("1.0.0")) == "1.0.0"', "no such overload"),
    "what arithmetic made cannot stand on the right": ('quantity("2") == quantity("1").add(1)', "no such overload"),
    "overflow": ("9223372036854775807 + 1 > 0", "integer overflow"),
    "no address": ('cidr("10.0.0.0/8").containsIP("bad")', "no such overload"),
    "an optional without value": ("optional.none().value() == 1", "optional.none() dereference"),
    "a key twice": ('{"a": 1, "b": 2}.transformMapEntry(k, v, {"x": v}).size() == 1', "key x already exists"),
    "sorted keys are of one type": ('[dyn(1), dyn("a")].sort().size() == 2', "list elements must have the same type"),
    "ends of time": ('timestamp("9999-12-31T23:59:59Z") + duration("1s") > timestamp(0)', "timestamp overflow"),
    "no order of NaN": ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
}


def parametrize_cases(cases):
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


@parametrize_cases(TRUE)
def test_is_true(case):
    assert evaluate(case) is True


@parametrize_cases(COMPILE_ERRORS)
def test_does_not_compile(case):
    expression, message = case
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, VARIABLES, STRUCTS)
    assert message in str(caught.value)


@parametrize_cases(RUNTIME_ERRORS)
def test_fails_at_run_time(case):
    expression, message = case
    with pytest.raises(CelError) as caught:
        evaluate(expression, 1)
    assert message in str(caught.value)


def test_object_in_a_constant_list_aborts_the_evaluation():
    with pytest.raises(AbortedError, match="hash of unhashable type"):
        evaluate('dyn(semver("1.0.0")) in ["1.0.0"] || true')


def test_error_positions_are_those_of_the_tokens():
    with pytest.raises(CompileError) as caught:
        compile_expression("true &&\n  foo.bar(1) || baz", {}, {})
    assert str(caught.value) == (
        "compilation failed: ERROR: <input>:2:3: undeclared reference to 'foo' (in container '')\n"
        " |   foo.bar(1) || baz\n | ..^\n"
        "ERROR: <input>:2:10: undeclared reference to 'bar' (in container '')\n"
        " |   foo.bar(1) || baz\n | .........^\n"
        "ERROR: <input>:2:17: undeclared reference to 'baz' (in container '')\n"
        " |   foo.bar(1) || baz\n | ................^"
    )
