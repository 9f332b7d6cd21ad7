"""What the documents refer to is there: files, headings, commands of ./dev, and tests."""
import pathlib
import re
import subprocess
import sys
import unittest

root = pathlib.Path(sys.argv[1]).resolve()
BUILT = {pathlib.Path(argument).resolve() for argument in sys.argv[2:]}
del sys.argv[1:]
DOCUMENTS = sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("tests/**/README.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"\./dev ([a-z]+)")
TEST = re.compile(r"\bT(?:YPED_T)?EST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)")
TEST_IN_C = re.compile(r"^(?:\w+_)?TEST(?:_WITH)?\((\w+)", re.MULTILINE)
NAMED_TEST = re.compile(r"`(\w+)\.(\w+|\*)`")


def text_of(document):
    """Without its code, which is in blocks and in comments."""
    return re.sub(r"^```.*?^```|^<!--.*?-->", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors_of(document):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ +(.*)$", text_of(document), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class TheDocuments(unittest.TestCase):
    def test_refer_to_files_and_headings_that_are_there(self):
        for document in DOCUMENTS:
            for link in LINK.findall(text_of(document)):
                if re.match(r"[a-z]+:", link):
                    continue
                with self.subTest(document=document.name, link=link):
                    path, _, anchor = link.partition("#")
                    target = document.parent / path if path else document
                    self.assertTrue(target.exists())
                    if anchor:
                        self.assertIn(anchor, anchors_of(target))

    def test_name_commands_that_dev_has(self):
        text = subprocess.run([root / "dev", "help"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"^  ([a-z]+)", text, flags=re.MULTILINE))
        for document in DOCUMENTS:
            for command in COMMAND.findall(document.read_text()):
                with self.subTest(document=document.name, command=command):
                    self.assertIn(command, known)

    def test_of_verification_names_tests_that_there_are(self):
        tests = {match for source in root.glob("tests/**/*.cpp") for match in TEST.findall(source.read_text())}
        tests |= {("c", test) for source in root.glob("tests/c/*.c") for test in TEST_IN_C.findall(source.read_text())}
        suites = {suite for suite, _ in tests}
        named = NAMED_TEST.findall((root / "docs/verification.md").read_text())
        self.assertNotEqual([], named)
        for suite, test in named:
            if test in ("h", "hpp", "cpp", "py"):
                continue
            with self.subTest(test=f"{suite}.{test}"):
                self.assertTrue(suite in suites if test == "*" else (suite, test) in tests)

    def test_in_docs_are_all_reached_from_the_readme(self):
        reached, waiting = set(), [root / "README.md"]
        while waiting:
            document = waiting.pop()
            reached.add(document)
            for link in LINK.findall(text_of(document)):
                target = (document.parent / link.partition("#")[0]).resolve()
                if target in DOCUMENTS and target not in reached:
                    waiting.append(target)
        self.assertEqual([], [str(d.relative_to(root)) for d in DOCUMENTS if d.parent != root and d not in reached])

    def test_are_all_known_to_the_build(self):
        unknown = {root / "README.md", *root.glob("docs/*.md"), *root.glob("docs/guides/*.md")} - BUILT
        self.assertEqual(set(), unknown, "new ones are compiled after: meson setup --reconfigure")


if __name__ == "__main__":
    unittest.main()
