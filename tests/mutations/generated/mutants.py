"""The mutants of a source: one small change each, which a test should notice."""
import re

from source import CLOSES, OPENS, Source

# of a comparison the other boundary, and the opposite
COMPARISONS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("/",), "<<": (">>",), ">>": ("<<",), "&": ("|",), "|": ("&",),
              "+=": ("-=",), "-=": ("+=",), "|=": ("&=",), "&=": ("|=",), "*=": ("/=",), "/=": ("*=",)}
LOGIC = {"&&": ("||",), "||": ("&&",)}
STEPS = {"++": ("--",), "--": ("++",)}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
BINARY = set(COMPARISONS) | set(ARITHMETIC) | set(LOGIC)

SCOPES = {"namespace", "struct", "class", "union", "enum", "extern"}
NO_EXPRESSION = {"return", "using", "static", "constexpr", "const", "auto", "struct", "class", "enum", "typedef", "static_assert",
                 "friend", "template", "case", "default", "public", "private", "protected", "goto", "throw", "__builtin_prefetch"}
BEFORE_A_BLOCK = {")", "noexcept", "const", "override", "final", "mutable", "else", "do", "try", ";", "{", "}"}


class Mutant:
    """Has `replacement` in the place of text[start:end] of a file."""

    def __init__(self, file, source, operator, start, end, replacement):
        self.file = file
        self.operator = operator
        self.start = start
        self.end = end
        self.replacement = replacement
        self.line = source.line_of(start)
        begin, stop = source.lines(start, end)
        self.before = plain(source.code[begin:stop])
        self.after = plain(source.code[begin:start] + replacement + source.code[end:stop])
        self.number = 1  # among those that read the same

    @property
    def key(self):
        """Names the mutant by what it changes, wherever in the file that stands."""
        same = f" #{self.number}" if self.number > 1 else ""
        return f"{self.file}: {self.operator}{same}\n- {self.before}\n+ {self.after}".rstrip()

    def apply(self, text):
        # with as many lines as before, which tests print
        gap = "\n" * text.count("\n", self.start, self.end)
        return text[:self.start] + self.replacement + gap + text[self.end:]


def plain(text):
    return re.sub(r"\s+", " ", text).strip()


def mutants_of(file, text):
    source = Source(text)
    found = []

    def add(operator, start, end, replacement):
        found.append(Mutant(file, source, operator, start, end, replacement))

    operators(source, add)
    conditions(source, add)
    operands(source, add)
    statements(source, add)
    found.sort(key=lambda m: (m.start, m.end, m.replacement))
    seen = {}
    for m in found:
        seen[m.key] = m.number = seen.get(m.key, 0) + 1
    return found


def operators(source, add):
    tokens = source.tokens
    for i, t in enumerate(tokens):
        if t.fixed:
            continue
        if t.kind == "sign":
            for name, table in (("comparison", COMPARISONS), ("arithmetic", ARITHMETIC), ("logic", LOGIC)):
                if t.text in table and source.spaced(i):
                    for other in table[t.text]:
                        add(name, t.start, t.end, other)
            if t.text in STEPS:
                add("arithmetic", t.start, t.end, STEPS[t.text][0])
            elif t.text == "!":
                add("negation", t.start, t.end, "")
            elif t.text == "~" and not is_destructor(source, i):
                add("arithmetic", t.start, t.end, "")
        elif t.kind == "number":
            for other in neighbours(t.text):
                add("off by one", t.start, t.end, other)
        elif t.kind == "name":
            if t.text in ("true", "false"):
                add("constant", t.start, t.end, "false" if t.text == "true" else "true")
            elif t.text in ("min", "max") and source.is_text(i - 1, "::") and source.is_text(i - 2, "std"):
                add("extreme", t.start, t.end, "max" if t.text == "min" else "min")


def is_destructor(source, i):
    return (source.is_text(i - 1, "::", ";", "{", "}", ":", "virtual") and source.tokens[i + 1].kind == "name"
            and source.is_text(i + 2, "("))


def neighbours(number):
    found = re.fullmatch(r"(0[xX][\da-fA-F']+|\d[\d']*)([uUlLzZ]*)", number)
    if not found:
        return []
    value = int(found[1].replace("'", ""), 0 if found[1][:2] in ("0x", "0X") else 10)
    return [f"{other}{found[2]}" for other in (value + 1, value - 1) if other >= 0]


# --- conditions -------------------------------------------------------------------------------------------------------

def conditions(source, add):
    tokens = source.tokens

    def negate(first, last):
        if first > last:
            return
        signs = [tokens[i].text for i in range_at_depth(source, first, last) if is_binary(source, i)]
        # another mutant does it: it turns the comparison round, or drops the negation
        if len(signs) == 1 and signs[0] in COMPARISONS or not signs and tokens[first].text == "!":
            return
        add("condition", tokens[first].start, tokens[last].end, f"!({source.code[tokens[first].start:tokens[last].end]})")

    for i, t in enumerate(tokens):
        if t.fixed:
            continue
        if t.kind == "name" and t.text in ("if", "while", "for") and source.is_text(i + 1, "("):
            end = tokens[i + 1].match
            cuts = [j for j in range_at_depth(source, i + 2, end - 1) if tokens[j].text == ";"]
            if t.text == "for":
                if len(cuts) == 2:
                    negate(cuts[0] + 1, cuts[1] - 1)
            else:
                negate(cuts[-1] + 1 if cuts else i + 2, end - 1)
        elif t.text == "?":
            first = i
            while not begins_an_expression(tokens[first - 1]):
                first = tokens[first - 1].match if tokens[first - 1].text in CLOSES else first - 1
            negate(first, i - 1)


def is_binary(source, i):
    return source.tokens[i].text in BINARY and not source.tokens[i].fixed and source.spaced(i)


def begins_an_expression(t):
    return t.text in OPENS or t.text in ASSIGNMENTS or t.text in ("return", ",", ";", "?", ":", "}")


def range_at_depth(source, first, last):
    """Yields the indices from first to last that are in no inner brackets; of a pair of brackets both."""
    i = first
    while i <= last:
        yield i
        t = source.tokens[i]
        i = t.match if t.text in OPENS and t.match is not None else i + 1


def operands(source, add):
    """Drops a part of a condition: the right operand of each && and ||, or the first of all."""
    tokens = source.tokens
    for i, t in enumerate(tokens):
        if t.fixed or t.text not in LOGIC or not source.spaced(i):
            continue
        binds_closer = {"&&", "||"} if t.text == "&&" else {"||"}
        last = i
        while last + 1 < len(tokens) and not ends_an_operand(tokens[last + 1], binds_closer):
            last = tokens[last + 1].match if tokens[last + 1].text in OPENS else last + 1
        add("operand", tokens[i - 1].end, tokens[last].end, "")
        first = i
        while not begins_an_expression(tokens[first - 1]) and tokens[first - 1].text not in binds_closer:
            first = tokens[first - 1].match if tokens[first - 1].text in CLOSES else first - 1
        if tokens[first - 1].text != t.text:
            add("operand", tokens[first].start, tokens[i + 1].start, "")


def ends_an_operand(t, binds_closer):
    return t.text in CLOSES or t.text in ("?", ":", ",", ";") or t.text in binds_closer


# --- statements -------------------------------------------------------------------------------------------------------

def statements(source, add):
    """Drops a statement: an expression, break, continue, or return without a value."""
    tokens = source.tokens
    scopes = []  # of each open bracket: "block", "lambda", "scope" (of a class) or "inner"; and where its statement began
    start = 0
    for i, t in enumerate(tokens):
        if t.kind != "sign":
            continue
        if t.text in OPENS:
            kind = block_kind(source, start, i, scopes) if t.text == "{" else "inner"
            scopes.append((kind, start))
            if kind != "inner":
                start = i + 1
        elif t.text in CLOSES:
            if not scopes:
                return  # no C++
            kind, begun = scopes.pop()
            if kind == "lambda":
                start = begun
            elif kind in ("block", "scope"):
                start = i + 1
        elif t.text == ";" and (not scopes or scopes[-1][0] != "inner"):
            if scopes and scopes[-1][0] in ("block", "lambda"):
                first = without_control(source, start, i)
                if is_expression(source, first, i):
                    add("statement", tokens[first].start, t.end, "{}")
            start = i + 1


def block_kind(source, start, i, scopes):
    tokens = source.tokens
    before = tokens[i - 1] if i > 0 else None
    statement = tokens[start:i]
    inner = bool(scopes) and scopes[-1][0] == "inner"
    returns = any(a.text == ")" and b.text == "->" for a, b in zip(statement, statement[1:]))
    begins_block = before is None or before.text in BEFORE_A_BLOCK or returns or before.text == "]"
    if not inner:
        head = [t.text for t in statement if not t.fixed]
        if head and (head[0] in SCOPES or "namespace" in head) and "(" not in head:
            return "scope"
    if not begins_block:
        return "inner"
    if has_lambda(source, start, i):
        return "lambda"
    return "inner" if inner else "block"


def has_lambda(source, start, i):
    """Returns true if the block that opens at i is the body of a lambda: a capture list stands before it."""
    tokens = source.tokens
    j = i - 1
    while j >= start and tokens[j].text not in (")", "]", ";", "{", "}"):
        j -= 1
    if j >= start and tokens[j].text == ")" and tokens[j].match is not None:
        j = tokens[j].match - 1
    if j < start or tokens[j].text != "]" or tokens[j].match is None:
        return False
    before = tokens[j].match - 1
    return before < start or tokens[before].text in ("=", "(", ",", "return", "{")


def without_control(source, first, end):
    """Returns where the statement itself begins, behind the if (...), else or the like that controls it."""
    tokens = source.tokens
    while first < end:
        text = tokens[first].text
        if text in ("if", "for", "while", "switch"):
            bracket = first + 2 if source.is_text(first + 1, "constexpr") else first + 1
            if not source.is_text(bracket, "(") or tokens[bracket].match is None:
                return first
            first = tokens[bracket].match + 1
        elif text in ("else", "do"):
            first += 1
        elif text in ("case", "default"):
            while first < end and tokens[first].text != ":":
                first += 1
            first += 1
        else:
            return first
    return first


def is_expression(source, first, end):
    """Returns true if the tokens from first to end are a statement that can be dropped. `end` is its semicolon."""
    tokens = source.tokens
    if first >= end:
        return False
    head = tokens[first]
    if head.text in ("break", "continue") or head.text == "return" and first + 1 == end:
        return True
    if head.text in NO_EXPRESSION:
        return False
    if head.kind != "name":
        return head.text in ("++", "--", "*", "(")
    # a declaration: a type, with what belongs to it, and a name
    i = first + 1
    while i < end and (tokens[i].text == "::" or tokens[i - 1].text == "::"):
        i += 1
    if source.is_text(i, "<") and tokens[i].fixed:
        i = source.angle_end(i) + 1
    while i < end and tokens[i].text in ("&", "*", "&&", "const", "::"):
        i += 1
    return not (i < end and tokens[i].kind == "name")
