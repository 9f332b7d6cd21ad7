"""Writes the guides, and the files that they refer to, as pages for doxygen: pages.py ROOT FOLDER

The pages are README.md and all that it leads to. CHAPTERS gives them their order. Links become those of the site: to pages, to headings,
and to the reference of a header. Doxygen needs an identifier for each heading, and takes some characters for commands.
"""
import collections
import pathlib
import re
import sys

CHAPTERS = {
    "First steps": ("docs/getting-started.md", "docs/choosing.md", "docs/from-uv-timer.md", "docs/guides/early-timers.md",
                    "docs/faq.md", "docs/reference/compile-errors.md", "docs/guides/terms.md"),
    "Guides": ("docs/idle-timeouts.md", "docs/requests.md", "docs/deadlines.md", "docs/retries.md", "docs/expiring-maps.md",
               "docs/cross-thread.md", "docs/coroutines.md", "docs/lifetime.md", "docs/testing-timeouts.md", "docs/operating.md",
               "docs/tick-and-geometry.md"),
    "Durable timers": ("docs/durable.md", "docs/cluster.md", "docs/cluster-sizing.md", "docs/timer-server.md",
                       "docs/guides/another-store.md"),
    "Inside": ("docs/design.md", "docs/verification.md", "docs/benchmarks.md", "docs/benchmarks-durable.md", "docs/platforms.md",
               "docs/abi.md", "tests/durable/crash/README.md", "tests/durable/chaos/README.md", "tests/durable/simulation/README.md",
               "tests/model/README.md", "tests/weak_memory/README.md"),
    "Project": ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
}
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".py": "py"}
PICTURES = (".svg", ".png")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"(`+)(?:.*?[^`])\1(?!`)")


def anchor_of(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def page_of(file):
    """The identifier of the page of a file, whose path is relative to the root. It names the file of the page."""
    if file.name == "README.md":
        name = str(file.parent) if file.parent.parts else "index"
    else:
        name = file.stem if file.suffix == ".md" else str(file)
    return re.sub(r"\W|_", "-", name)


def header_page_of(file):
    """As doxygen names it."""
    return file.name.replace("_", "__").replace(".", "_8") + ".html"


def blocks_of(text):
    """Pairs of a text and whether it is code. HTML comments, which are for the tests, are left out."""
    for part in re.split(r"(^ *```.*?^ *```$)", re.sub(r"^<!--.*?-->\n", "", text, flags=re.DOTALL | re.MULTILINE),
                         flags=re.DOTALL | re.MULTILINE):
        yield part, part.lstrip().startswith("```")


class Site:
    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.waiting = [pathlib.PurePath("README.md")]
        self.seen = set(self.waiting)
        self.headings = collections.Counter()

    def target(self, file, link):
        """What `link` in `file` becomes."""
        if re.match(r"[a-z]+:", link):
            return link
        path, _, anchor = link.partition("#")
        to = (self.root / file.parent / path).resolve().relative_to(self.root) if path else file
        if to.suffix in PICTURES:
            return to.name
        if to.parts[0] == "include" and "detail" not in to.parts:  # it has a page in the reference
            return header_page_of(to)
        if to not in self.seen:
            self.seen.add(to)
            self.waiting.append(to)
        page = page_of(to)
        return f"{page}.html#{page}-{anchor}" if anchor else f"{page}.html"

    def prose(self, file, text):
        page = page_of(file)

        def heading(match):
            marks, title = match.groups()
            if marks == "#":
                return match[0] if page == "index" else f"{match[0]} {{#{page}}}\n\n[TOC]"
            anchor = anchor_of(title)
            self.headings[page, anchor] += 1
            if (times := self.headings[page, anchor]) > 1:
                anchor += f"-{times - 1}"
            anchor = f"{page}-{anchor}"
            if page == "index":  # as HTML, or the navigation would list its headings before the chapters
                return f'<h{len(marks)}><a class="anchor" id="{anchor}"></a>{title}</h{len(marks)}>'
            return f"{match[0]} {{#{anchor}}}"

        def line(text):
            """Outside of `code` doxygen would take @ and \\ for the beginning of a command, and # for that of a name."""
            if text.startswith("    "):
                return text
            end, parts = 0, []
            for code in CODE.finditer(text):
                parts += [re.sub(r"([@\\])", r"\\\1", text[end:code.start()]), code[0]]
                end = code.end()
            return "".join(parts) + re.sub(r"([@\\])", r"\\\1", text[end:])

        text = "\n".join(map(line, text.split("\n")))
        text = LINK.sub(lambda match: f"]({self.target(file, match[1])})", text)
        return re.sub(r"^(#+) +(.*)$", heading, text, flags=re.MULTILINE)

    def page(self, file):
        text = (self.root / file).read_text()
        if file.suffix != ".md":
            return f"# {file} {{#{page_of(file)}}}\n\n```{LANGUAGES.get(file.suffix, '')}\n{text.rstrip()}\n```\n"
        return "".join(part if is_code else self.prose(file, part) for part, is_code in blocks_of(text))

    def write(self):
        while self.waiting:
            file = self.waiting.pop()
            (self.folder / f"{page_of(file)}.md").write_text(self.page(file))
        guides = {file for file in self.seen if file.suffix == ".md"} - {pathlib.PurePath("README.md")}
        chapters = {title: [pathlib.PurePath(file) for file in files] for title, files in CHAPTERS.items()}
        chapters["Files that the guides name"] = sorted(self.seen - guides - {pathlib.PurePath("README.md")})
        for number, (title, files) in enumerate(chapters.items()):
            lines = [f"# {title} {{#chapter-{number}}}", ""] + [f"- \\subpage {page_of(file)}" for file in files]
            (self.folder / f"chapter-{number}.md").write_text("\n".join(lines) + "\n")
        listed = {file for files in chapters.values() for file in files}
        for file in sorted(guides - listed):
            print(f"{file} is in no chapter of {sys.argv[0]}")
        for file in sorted(listed - self.seen):
            print(f"{file} is in a chapter of {sys.argv[0]}, but no page leads to it")
        return guides <= listed <= self.seen


if __name__ == "__main__":
    root, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True)
    sys.exit(not Site(root.resolve(), folder).write())
