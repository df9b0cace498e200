"""The lexer and the parser, which turn text into an expression with macros expanded.

Upstream: github.com/google/cel-go/parser/{gen/CEL.g4,parser.go,unescape.go} (v0.26). Its limits hold: no rule of the
grammar may be entered more than 250 times within itself, and operators, selections, indexes and member calls may nest
no deeper than that, where each link of a chain is one level.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from kschedctl.cel.errors import CompileError, build_compile_error
from kschedctl.cel.macros import expand_macro
from kschedctl.cel.syntax import (
    Call,
    Ident,
    ListOf,
    Literal,
    MapEntry,
    MapOf,
    Message,
    MessageField,
    Select,
    SyntaxNode,
)
from kschedctl.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint, Value

T = TypeVar("T")

MAX_DEPTH = 250
RELATIONS = frozenset(["<", "<=", ">", ">=", "==", "!=", "in"])
_SURROGATES = range(0xD800, 0xE000)
"""Code points that are no characters."""
_PRECEDENCE = {"*": 2, "/": 2, "%": 2, "+": 1, "-": 1}
_LITERALS = frozenset(["int", "uint", "double", "text", "bytes", "true", "false", "null"])
RESERVED = frozenset(
    ["as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "namespace"]
) | {"package", "return", "var", "void", "while"}


def parse_source(source: str) -> SyntaxNode:
    """Parse the text of an expression into its syntax tree.

    Raises CompileError if it is invalid or nested too deeply.
    """
    parser = _Parser(source)
    node = parser.parse_expression()
    if parser.token.kind != END:
        what = f"Syntax error: extraneous input '{parser.token.text}' expecting {END}"
        raise parser.build_error(parser.token.offset, what)
    if node.height > MAX_DEPTH:
        raise _build_depth_error("max recursion depth exceeded")
    return node


def _build_depth_error(what: str) -> CompileError:
    """Build the error for an expression that is nested too deep, with the message ``what``."""
    return CompileError(f"compilation failed: ERROR: <input>:-1:0: {what}")


def _compute_height(*parts: SyntaxNode) -> int:
    """Return the height of a node above its parts."""
    return 1 + _get_max_height(parts)


def _get_max_height(parts: tuple[SyntaxNode, ...]) -> int:
    """Return the height of the highest part."""
    return max((part.height for part in parts), default=0)


def _build_operator_call(operator: Token, function: str, *operands: SyntaxNode) -> Call:
    """Build a call of an operator at its token. `function` is the name of the operator as a function."""
    return Call(operator.offset, _compute_height(*operands), function, target=None, args=operands)


class _Parser:
    """A recursive descent parser of one expression."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self.position = 0
        self.depth: Counter[str] = Counter()

    # -- tokens --------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        """The current token."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """Return the current token and advance."""
        token = self.token
        self.position += 1
        return token

    def accept(self, *kinds: str) -> Token | None:
        """Take the current token if it has one of the kinds, or return None."""
        return self.take() if self.token.kind in kinds else None

    def expect(self, kind: str) -> Token:
        """Take and return the current token. Raises CompileError if it is of another kind."""
        if self.token.kind != kind:
            raise self.build_unexpected_token_error(kind)
        return self.take()

    def build_unexpected_token_error(self, expected_kind: str = "") -> CompileError:
        """Build ANTLR's error for the current token, which is not of the `expected_kind`.

        Without `expected_kind`, the message does not say what was expected. ANTLR's list of several expected tokens is
        never included. If the expression ends before an expected ")", the message says that the parenthesis is missing.
        """
        text = self.token.text
        if expected_kind == ")" and self.token.kind == END:
            return self.build_error(self.token.offset, f"Syntax error: missing ')' at '{text}'")
        expecting = f" expecting '{expected_kind}'" if expected_kind else ""
        return self.build_error(self.token.offset, f"Syntax error: mismatched input '{text}'{expecting}")

    def build_error(self, offset: int, message: str) -> CompileError:
        """Build the error for a message at an offset."""
        return build_compile_error(self.source, [(offset, message)])

    def enter_rule(self, rule: str) -> None:
        """Count the entry into a rule of the grammar. Raises CompileError if the rule is nested too deep."""
        self.depth[rule] += 1
        if self.depth[rule] > MAX_DEPTH:
            raise _build_depth_error(f"expression recursion limit exceeded: {MAX_DEPTH}")

    # -- operators -----------------------------------------------------------------------------------------------

    def parse_expression(self) -> SyntaxNode:
        """Parse `a ? b : c`, or an expression without a condition."""
        self.enter_rule("expression")
        node = self.parse_logical("||", self.parse_conjunction)
        question = self.accept("?")
        if question:
            then = self.parse_logical("||", self.parse_conjunction)
            self.expect(":")
            node = _build_operator_call(question, "_?_:_", node, then, self.parse_expression())
        self.depth["expression"] -= 1
        return node

    def parse_conjunction(self) -> SyntaxNode:
        """Parse relations joined by `&&`, or a single relation."""
        return self.parse_logical("&&", self.parse_relation)

    def parse_logical(self, operator: str, term: Callable[[], SyntaxNode]) -> SyntaxNode:
        """Parse one or more terms joined by `operator`, which is `&&` or `||`, into one call.

        `term` parses a term. A single term is returned unchanged.
        """
        terms = [term()]
        offset = 0
        while self.token.kind == operator:
            offset = self.take().offset
            terms.append(term())
        if len(terms) == 1:
            return terms[0]
        height = _get_max_height(tuple(terms))  # joined terms do not add a level to the depth that is limited
        return Call(offset, height, f"_{operator}_", target=None, args=tuple(terms))

    def parse_relation(self, chained: bool = True) -> SyntaxNode:
        """Parse comparisons and ``in``, which group from the left.

        If ``chained`` is false, parse only the operand before the next comparison.
        """
        self.enter_rule("relation")
        node = self.parse_arithmetic(precedence=1)  # the lowest
        while chained and self.token.kind in RELATIONS:
            operator = self.take()
            name = "@in" if operator.kind == "in" else f"_{operator.kind}_"
            node = _build_operator_call(operator, name, node, self.parse_relation(chained=False))
        self.depth["relation"] -= 1
        return node

    def parse_arithmetic(self, precedence: int) -> SyntaxNode:
        """Parse binary operators with at least this precedence."""
        self.enter_rule("arithmetic")
        node = self.parse_unary()
        while _PRECEDENCE.get(self.token.kind, 0) >= precedence:
            operator = self.take()
            # Operators of equal precedence group from the left.
            right = self.parse_arithmetic(_PRECEDENCE[operator.kind] + 1)
            node = _build_operator_call(operator, f"_{operator.kind}_", node, right)
        self.depth["arithmetic"] -= 1
        return node

    def parse_unary(self) -> SyntaxNode:
        """Parse ``!`` and ``-``. Pairs of the same operator cancel out."""
        first = self.token
        if first.kind not in ("!", "-") or self._is_negative_number():
            return self.parse_member()
        count = 0
        while self.accept(first.kind):
            count += 1
        node = self.parse_member()
        if count % 2 == 0:
            return node
        return Call(first.offset, node.height, f"{first.kind}_", target=None, args=(node,))

    def _is_negative_number(self) -> bool:
        """Return whether the current token is the minus sign of a number."""
        return self.token.kind == "-" and self.tokens[self.position + 1].kind in ("int", "double")

    # -- selections ----------------------------------------------------------------------------------------------

    def parse_member(self) -> SyntaxNode:
        """Parse a primary expression and the indexes and selections that follow it."""
        node = self.parse_primary()
        while self.token.kind in (".", "["):
            node = self.parse_index(node) if self.token.kind == "[" else self.parse_selection(node)
        return node

    def parse_index(self, node: SyntaxNode) -> SyntaxNode:
        """Parse `[i]` or `[?i]` after a node."""
        bracket = self.take()
        function = "_[?_]" if self.accept("?") else "_[_]"
        index = self.parse_expression()
        self.expect("]")
        return _build_operator_call(bracket, function, node, index)

    def parse_selection(self, node: SyntaxNode) -> SyntaxNode:
        """Parse `.field`, `.?field` or `.method(…)` after a node."""
        dot = self.take()
        optional = self.accept("?")
        name = self.expect("name")
        if optional:
            field = Literal(name.offset, height=0, value=name.text)
            return _build_operator_call(dot, "_?._", node, field)
        parenthesis = self.accept("(")
        if not parenthesis:
            return Select(dot.offset, _compute_height(node), node, name.text)
        return self.parse_call(parenthesis, name.text, node)

    def parse_call(self, parenthesis: Token, function: str, target: SyntaxNode | None) -> SyntaxNode:
        """Parse the arguments after the opening parenthesis, and return the call, or its expansion if it is a macro.

        ``target`` is the receiver of a method, or None. Raises CompileError if the call is malformed.
        """
        args = tuple(self.parse_sequence(")", self.parse_expression))
        # Only a call with a target adds a level to the depth that is limited
        height = _compute_height(target, *args) if target else _get_max_height(args)
        call = Call(parenthesis.offset, height, function, target, args)
        try:
            return expand_macro(call)
        except CompileError as error:
            offset, message = error.args
            raise self.build_error(offset, message) from None

    def parse_sequence(self, end: str, item: Callable[[], T], *, trailing: bool = False) -> list[T]:
        """Parse items separated by commas, up to and including the token ``end``.

        ``trailing`` allows a comma after the last item.
        """
        items: list[T] = []
        while self.token.kind != end:
            items.append(item())
            if not self.accept(","):
                break
            if self.token.kind == end and not trailing:
                raise self.build_unexpected_token_error()
        self.expect(end)
        return items

    # -- the smallest parts --------------------------------------------------------------------------------------

    def parse_primary(self) -> SyntaxNode:
        """Parse a parenthesized expression, a list, a map, a name or a literal."""
        token = self.token
        match token.kind:
            case "(":
                self.take()
                node = self.parse_expression()
                self.expect(")")
                return node
            case "[":
                return self.parse_list()
            case "{":
                self.take()
                entries = tuple(self.parse_sequence("}", self.parse_entry, trailing=True))
                parts = tuple(part for entry in entries for part in (entry.key, entry.value))
                return MapOf(token.offset, _get_max_height(parts), entries)
            case "." | "name":
                return self.parse_name_or_call()
        return self.parse_literal()

    def parse_literal(self) -> SyntaxNode:
        """Parse a literal. A minus sign before a number is part of it.

        Raises CompileError if the next token is not a literal, or if its value is invalid.
        """
        token = self.token
        negative = self._is_negative_number()
        if negative:
            self.take()
        if self.token.kind not in _LITERALS:
            raise self.build_unexpected_token_error()
        try:
            return Literal(token.offset, height=0, value=parse_literal(self.take(), negative))
        except ValueError as error:
            raise self.build_error(token.offset, str(error)) from None

    def parse_list(self) -> SyntaxNode:
        """Parse a list literal, in which `?` marks optional elements."""
        bracket = self.take()
        elements = self.parse_sequence("]", self.parse_element, trailing=True)
        nodes = tuple(node for node, _ in elements)
        optional = frozenset(i for i, (_, is_optional) in enumerate(elements) if is_optional)
        return ListOf(bracket.offset, _get_max_height(nodes), nodes, optional)

    def parse_element(self) -> tuple[SyntaxNode, bool]:
        """Parse an element of a list literal, and return the element and whether it is optional."""
        optional = bool(self.accept("?"))
        return self.parse_expression(), optional

    def parse_entry(self) -> MapEntry:
        """Parse an entry of a map literal, in which a leading `?` marks an optional entry."""
        optional = bool(self.accept("?"))
        key = self.parse_expression()
        self.expect(":")
        return MapEntry(key, self.parse_expression(), optional)

    def parse_name_or_call(self) -> SyntaxNode:
        """Parse an identifier, a call to a function, or a message literal."""
        dot = self.accept(".")
        token = self.expect("name")
        name = f".{token.text}" if dot else token.text
        if self._starts_message():
            return self.parse_message(name)
        if token.text in RESERVED:
            raise self.build_error((dot or token).offset, f"reserved identifier: {token.text}")
        parenthesis = self.accept("(")
        if parenthesis:
            return self.parse_call(parenthesis, name, target=None)
        return Ident(token.offset, height=0, name=name)

    def _starts_message(self) -> bool:
        """Return whether names joined by dots are followed by ``{``."""
        position = self.position
        while self.tokens[position].kind == "." and self.tokens[position + 1].kind == "name":
            position += 2
        return self.tokens[position].kind == "{"

    def parse_message(self, name: str) -> SyntaxNode:
        """Parse a message literal after the first part of its type name."""
        while self.accept("."):
            name += f".{self.expect('name').text}"
        brace = self.expect("{")
        fields = tuple(self.parse_sequence("}", self.parse_field, trailing=True))
        height = _get_max_height(tuple(message_field.value for message_field in fields))
        return Message(brace.offset, height, name, fields)

    def parse_field(self) -> MessageField:
        """Parse a field of a message literal, in which a leading `?` marks an optional field."""
        optional = bool(self.accept("?"))
        name = self.expect("name")
        colon = self.expect(":")
        return MessageField(name.text, self.parse_expression(), optional, colon.offset)


class Token(NamedTuple):
    """A token of an expression."""

    kind: str
    """The token itself for operators and keywords, or else its category."""
    text: str
    offset: int


KEYWORDS = frozenset(["in", "true", "false", "null"])
END = "<EOF>"

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_TEXT = "|".join(
    [rf"{quote * 3}(?:{_ESCAPE}|[^\\])*?{quote * 3}" for quote in "\"'"]
    + [rf"{quote}(?:{_ESCAPE}|[^\\\n\r{quote}])*{quote}" for quote in "\"'"]
)
_RAW = "|".join(
    [rf"{quote * 3}(?s:.*?){quote * 3}" for quote in "\"'"] + [rf"{quote}[^\n\r{quote}]*{quote}" for quote in "\"'"]
)
_TOKEN = re.compile(
    rf"""(?P<space>[\t \r\n\f]+|//[^\n]*)
    |(?P<text>[rR](?:{_RAW})|{_TEXT})
    |(?P<bytes>[bB](?:[rR](?:{_RAW})|{_TEXT}))
    |(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])""",
    re.VERBOSE,
)
_ESCAPED = re.compile(_ESCAPE)
_ESCAPED_BACKSLASH = re.compile(r"\\\\")
_CODE_POINT_ESCAPE = re.compile(r"\\[uU]")
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def tokenize(source: str) -> list[Token]:
    """Return all tokens and an end token, without spaces and comments.

    Raises CompileError at a character that begins no token.
    """
    tokens = []
    offset = 0
    while offset < len(source):
        match = _TOKEN.match(source, offset)
        if match is None:
            raise build_compile_error(
                source, [(offset, f"Syntax error: token recognition error at: '{source[offset : offset + 20]}'")]
            )
        kind = str(match.lastgroup)
        text = match[0]
        if kind == "operator" or (kind == "name" and text in KEYWORDS):
            kind = text
        if kind != "space":
            tokens.append(Token(kind, text, offset))
        offset = match.end()
    return [*tokens, Token(END, END, len(source))]


def parse_literal(token: Token, negative: bool = False) -> Value:
    """Return the value of a literal token, with a minus sign if ``negative`` is set.

    Raises ValueError if the value is out of range or has an invalid escape.
    """
    sign = "-" if negative else ""
    match token.kind:
        case "int":
            return _parse_number(sign + token.text, low=INT_MIN, high=INT_MAX, fault="invalid int literal")
        case "uint":
            return Uint(_parse_number(token.text[:-1], low=0, high=UINT_MAX, fault="invalid uint literal"))
        case "double":
            value = float(sign + token.text)
            if value in (float("inf"), float("-inf")):
                raise ValueError("invalid double literal")
            return value
        case "text":
            return _unquote_literal(token.text, in_bytes=False)
        case "bytes":
            return _unquote_literal(token.text[1:], in_bytes=True).encode("latin-1")
    return {"true": True, "false": False, "null": None}[token.text]


def _parse_number(text: str, low: int, high: int, fault: str) -> int:
    """Parse a decimal or hexadecimal integer from ``low`` to ``high``, which may be negative.

    Raises ValueError with the message ``fault`` for any other integer.
    """
    # Reject more than 40 digits at once: they exceed 64 bits in either base, and int() limits decimal digits
    if len(text) > 40 and text.lstrip("-0x")[40:]:
        raise ValueError(fault)
    value = int(text.replace("0x", ""), 16) if "0x" in text else int(text)
    if not low <= value <= high:
        raise ValueError(fault)
    return value


def _unquote_literal(text: str, *, in_bytes: bool) -> str:
    """Return the text between the quotes of a literal, with escape sequences replaced unless it is raw.

    In a literal of bytes, each byte becomes one character. Raises ValueError for an invalid escape sequence.
    """
    is_raw = text[0] in "rR"
    if is_raw:
        text = text[1:]
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_triple_quoted = len(text) >= 6 and text.startswith(('"""', "'''"))
    quote_length = 3 if is_triple_quoted else 1
    text = text[quote_length:-quote_length]
    if in_bytes:
        text = text.encode("utf-8", "surrogatepass").decode("latin-1")
    if is_raw:
        return text
    if in_bytes:
        # Bytes have no code points. A "u" after an escaped backslash is only a letter.
        text_without_escaped_backslashes = _ESCAPED_BACKSLASH.sub("", text)
        if _CODE_POINT_ESCAPE.search(text_without_escaped_backslashes):
            raise ValueError("unable to unescape string")
    return _ESCAPED.sub(_decode_escape, text)


def _decode_escape(match: re.Match[str]) -> str:
    """Return the character for an escape sequence. Raises ValueError for an invalid code point."""
    escape = match[0][1:]
    if escape[0] in "xXuU0123":
        code = int(escape[1:], 16) if escape[0] in "xXuU" else int(escape, 8)
        if code > sys.maxunicode or code in _SURROGATES:
            raise ValueError("invalid unicode code point")
        return chr(code)
    return _NAMED.get(escape, escape)
