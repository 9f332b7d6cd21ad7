"""What the comments of the reference say, as far as that can be told: doxygen only looks whether there is one.

Reads doxygen's XML. Each class says Thread safety, Complexity and Lifetime; one that can fail says Errors, or its functions name
codes. Each function that answers an int says which codes, or as which other. Prints a line for each that does not.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ET

ASPECTS = ("thread safety", "complexity", "lifetime")
CODE = re.compile(r"\bUV_[A-Z]+")
NAME = {"ref", "computeroutput"}
ANSWER = re.compile(r"\bUV_[A-Z]+|\b([Aa]s|[Ss]ee) `|\b[Tt]rue |\b[Ww]hether |\boutcome\b")


def text_of(element):
    """With a backtick before each name."""
    parts = ["`" if element.tag in NAME else "", element.text or ""]
    return "".join(parts + [text_of(child) + (child.tail or "") for child in element])


def said(element):
    """The text of an element's comment."""
    parts = (element.find("briefdescription"), element.find("detaileddescription"))
    return " ".join(text_of(part) for part in parts if part is not None)


def answers_int(function):
    return "".join(function.find("type").itertext()).split()[-1:] == ["int"]


def lacks_of_class(compound, functions):
    text = said(compound).lower()
    yield from (aspect for aspect in ASPECTS if aspect not in text)
    can_fail = any(map(answers_int, functions))
    if can_fail and "errors" not in text and not any(CODE.search(said(f)) for f in functions):
        yield "errors"


def main(folder):
    lacks, looked_at = set(), 0
    for file in pathlib.Path(folder).glob("*.xml"):
        for compound in ET.parse(file).getroot().findall("compounddef"):
            name = compound.findtext("compoundname")
            functions = [f for f in compound.iter("memberdef") if f.get("kind") == "function" and f.get("prot") != "private"]
            if compound.get("kind") == "class" and compound.get("prot") != "private":
                lacks.update((name, lack) for lack in lacks_of_class(compound, functions))
            lacks.update((name, f.findtext("name")) for f in functions if answers_int(f) and not ANSWER.search(said(f)))
            looked_at += len(functions)
    for name, lack in sorted(lacks):
        print(f"{name} does not say: {lack}")
    if looked_at < 100:
        print(f"{folder} has no more than {looked_at} functions: that is not the reference")
        return 1
    return 1 if lacks else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
