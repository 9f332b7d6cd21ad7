"""C++ as tokens, by its text alone, with what is no code to change left out.

It counts on the format that `./dev format` keeps: a binary operator stands between spaces, and the `<` of a template argument list
follows its name directly.
"""
import bisect
import re

TOKEN = re.compile(r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^(]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><=>|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.VERBOSE | re.DOTALL)

DIRECTIVE = re.compile(r"#(?:\\\n|[^\n])*")

OPENS = {"(": ")", "[": "]", "{": "}"}
CLOSES = {close: open for open, close in OPENS.items()}


class Token:
    def __init__(self, kind, text, start):
        self.kind = kind
        self.text = text
        self.start = start
        self.end = start + len(text)
        self.fixed = False  # never changed
        self.match = None   # of a bracket: the index of the other one

    def __repr__(self):
        return self.text


class Source:
    """The tokens of a file: neither its comments nor its preprocessor lines, nor its attributes."""

    def __init__(self, text):
        self.text = text
        self.code = list(text)  # without comments
        self.tokens = []
        self._read()
        self.code = "".join(self.code)
        self._lines = [0] + [i + 1 for i, c in enumerate(text) if c == "\n"]
        self._match_brackets()
        self._leave_out_attributes()
        self._fix_what_is_no_code()

    def _read(self):
        text = self.text
        position = 0
        while position < len(text):
            first_of_line = text[text.rfind("\n", 0, position) + 1:position].strip() == ""
            directive = DIRECTIVE.match(text, position) if first_of_line else None
            found = directive or TOKEN.match(text, position)
            if not directive and found["comment"]:
                self.code[found.start():found.end()] = re.sub(r"[^\n]", " ", found.group())
            elif not directive and not found["space"]:
                kind = next(k for k in ("string", "number", "name", "sign") if found[k])
                self.tokens.append(Token(kind, found.group(), found.start()))
            position = found.end()

    def line_of(self, position):
        return bisect.bisect_right(self._lines, position)

    def lines(self, start, end):
        """Returns where the lines begin and end that hold [start, end)."""
        begin = self.text.rfind("\n", 0, start) + 1
        stop = self.text.find("\n", end)
        return begin, len(self.text) if stop < 0 else stop

    def spaced(self, i):
        """Returns true if the token stands between spaces, as a binary operator does."""
        t = self.tokens[i]
        return self.text[t.start - 1:t.start].isspace() and self.text[t.end:t.end + 1].isspace()

    def is_text(self, i, *texts):
        return 0 <= i < len(self.tokens) and self.tokens[i].text in texts

    def _match_brackets(self):
        open = []
        for i, t in enumerate(self.tokens):
            if t.kind != "sign":
                continue
            if t.text in OPENS:
                open.append(i)
            elif t.text in CLOSES and open and self.tokens[open[-1]].text == CLOSES[t.text]:
                t.match = open.pop()
                self.tokens[t.match].match = i

    def _leave_out_attributes(self):
        # [[...]]: two brackets open next to each other, and close so
        kept = []
        i = 0
        while i < len(self.tokens):
            t = self.tokens[i]
            if t.text == "[" and t.match and self.is_text(i + 1, "[") and self.tokens[i + 1].match == t.match - 1:
                i = t.match + 1
            else:
                kept.append(t)
                i += 1
        self.tokens = kept
        for t in kept:
            t.match = None
        self._match_brackets()

    def _fix(self, first, last):
        for t in self.tokens[first:last + 1]:
            t.fixed = True

    def angle_end(self, i):
        """Returns the index of the `>` that closes the `<` at i; None if that is no list."""
        depth = 0
        while i < len(self.tokens):
            t = self.tokens[i]
            if t.text == "<":
                depth += 1
            elif t.text in (">", ">>"):
                depth -= len(t.text)
                if depth <= 0:
                    return i
            elif t.text in ("(", "[", "{") and t.match:
                i = t.match
            elif t.text in (";", ")", "]", "}", "&&", "||"):
                return None
            i += 1
        return None

    def _fix_what_is_no_code(self):
        for i, t in enumerate(self.tokens):
            if t.kind == "name" and t.text in ("static_assert", "alignas", "sizeof", "__builtin_prefetch") and self.is_text(i + 1, "("):
                self._fix(i, self.tokens[i + 1].match)
            elif t.text == "operator" and t.kind == "name" and i + 1 < len(self.tokens):
                self.tokens[i + 1].fixed = True
            elif t.text == "<":
                listed = self.is_text(i - 1, "template") or (
                    i > 0 and self.tokens[i - 1].kind == "name" and self.tokens[i - 1].end == t.start)
                end = self.angle_end(i) if listed else None
                if end is not None:
                    self._fix(i, end)
            elif t.text == "constexpr" and not self.is_text(i - 1, "if"):
                # a constant, whose value is a matter of tuning; but not a function
                j = i + 1
                while j < len(self.tokens) and self.tokens[j].text not in ("=", "(", "{", ";"):
                    j += 1
                if self.is_text(j, "="):
                    while j < len(self.tokens) and self.tokens[j].text != ";":
                        j = self.tokens[j].match + 1 if self.tokens[j].text in OPENS and self.tokens[j].match else j + 1
                    self._fix(i, j)
