#!/usr/bin/env python3
"""The code blocks of the documentation as source files, so that the tests compile and run what readers are told.

  blocks.py list DOCUMENT...            a line each: the document, and the names of what is made of it
  blocks.py write DIRECTORY DOCUMENT    writes these files

A block with a main is a program. All other C++ blocks of a document go into one file, each in a namespace of its own, as
tests (fragment.hpp). What readers need not see stands in HTML comments right before the block; CONTRIBUTING.md says how.
"""
import pathlib
import re
import sys

FENCE = re.compile(r"^```(\w*)\s*$")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
FILE_NAME = re.compile(r"^// ([\w.-]+\.hpp?)$")
MAIN = re.compile(r"^int main\(", re.MULTILINE)


class Block:
    def __init__(self, document, line, language, notes):
        self.document, self.line, self.language = document, line, language
        self.given = notes.pop("given", "")
        self.then = notes.pop("then", "")
        self.first = notes.pop("in a function", None)
        self.continues = notes.pop("continues", None) is not None
        self.lines = []
        if notes:
            raise SystemExit(f"{document}:{line}: no such note on a block: {', '.join(notes)}")

    @property
    def text(self):
        return "\n".join(self.lines)

    @property
    def in_function(self):
        return self.first is not None

    @property
    def is_program(self):
        return self.language == "c" or MAIN.search(self.text) is not None

    def file_name(self):
        found = FILE_NAME.match(self.lines[0]) if self.lines else None
        return found and found[1]


def notes_of(comments):
    """The HTML comments before a block: their first lines say what they are, the rest is code."""
    notes = {}
    for comment in comments:
        kind, _, code = comment.strip().partition("\n")
        notes[kind.strip()] = code
    return notes


def blocks_of(document):
    blocks, comments, open_block, comment = [], [], None, None
    for number, line in enumerate(document.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if open_block is not None:
            if line.strip() == "```":
                if open_block.language in ("c", "cpp"):
                    blocks.append(open_block)
                open_block = None
            else:
                open_block.lines.append(line)
        elif comment is not None:
            comment.append(line)
        elif fence:
            open_block = Block(document, number + 1, fence[1], notes_of(comments) if fence[1] in ("c", "cpp") else {})
            comments = []
        elif line.startswith("<!--"):
            comment = [line]
        elif line.strip():
            comments = []
        if comment is not None and comment[-1].rstrip().endswith("-->"):
            comments.append("\n".join(comment).strip()[len("<!--"):-len("-->")])
            comment = None
    if open_block is not None:
        raise SystemExit(f"{document}:{open_block.line}: the block has no end")
    return blocks


def line_directive(line, document):
    return f'#line {line} "{document}"'


class Source:
    """A source file in the making: what it includes, which stands before any namespace, and the rest."""

    def __init__(self, named):
        self.named, self.includes, self.body = named, [], []

    def add(self, text, line=None, document=None):
        if line is not None:
            self.body.append(line_directive(line, document))
        for row in text.splitlines():
            include = INCLUDE.match(row)
            if include and include[1] in self.named:
                block = self.named[include[1]]
                self.add(block.text, block.line, block.document)
                self.body.append(line_directive(line + 1, document) if line else "")
            elif include:
                if row not in self.includes:
                    self.includes.append(row)
                self.body.append("")
            else:
                self.body.append("" if row.startswith("#pragma once") else row)

    def text(self, before=""):
        return "\n".join([before, *self.includes, *self.body, ""])


def program(block, named):
    source = Source(named)
    source.add(block.given, block.line, block.document)
    source.add(block.text, block.line, block.document)
    return source.text()


def fragments(document, blocks, named):
    source = Source(named)
    name = re.sub(r"\W", "_", document.name)
    namespace = ""
    for block in blocks:
        if not block.continues:
            namespace = f"{name}::line_{block.line}"
        source.body.append(f"namespace {namespace} {{")
        source.add(block.given, block.line, block.document)
        if not block.in_function:
            source.add(block.text, block.line, block.document)
        if block.in_function or block.then:
            test = f"{name}_{block.line}"
            # answers an error, as a function of a program may
            source.body.append(f"struct {test} : tickwheel_docs::fragment {{ int run() noexcept; }};")
            source.body.append(f"TEST_F({test}, runs) {{ EXPECT_EQ(run(), 0); }}")
            source.body.append(f"int {test}::run() noexcept {{")
            if block.in_function:
                source.add(block.first, block.line, block.document)
                source.add(block.text, block.line, block.document)
            source.add(block.then, block.line, block.document)
            source.body.append("return 0;\n}")
        source.body.append(f"}}  // namespace {namespace}")
    return source.text('#include "fragment.hpp"')


def sources_of(document):
    """What is made of a document, by name."""
    blocks = blocks_of(document)
    named = {block.file_name(): block for block in blocks if block.file_name()}
    sources = {}
    pieces = [block for block in blocks if not block.is_program]
    if pieces:
        sources[f"{document.stem}.cpp"] = fragments(document, pieces, named)
    for number, block in enumerate([block for block in blocks if block.is_program], 1):
        kind = "main" if MAIN.search(block.text) else "part"
        sources[f"{document.stem}.{kind}{number}.{block.language}"] = program(block, named)
    return sources


def main(arguments):
    if arguments[:1] == ["list"]:
        for document in map(pathlib.Path, arguments[1:]):
            print(document, *sources_of(document))
    elif arguments[:1] == ["write"] and len(arguments) == 3:
        for name, text in sources_of(pathlib.Path(arguments[2])).items():
            pathlib.Path(arguments[1], name).write_text(text)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
