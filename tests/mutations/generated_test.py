"""The generated mutations: what is made of a source, which are sampled, what is remembered, and what is printed."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here / "generated"))

import limited  # noqa: E402 (the path first)
from build import what_failed  # noqa: E402
from errors import MutationError  # noqa: E402
from judgements import Judgements  # noqa: E402
from layers import PARTS  # noqa: E402
from mutants import mutants_of  # noqa: E402
from outcome import KILLED, NO_CODE, SAME_CODE, SURVIVED, Outcome  # noqa: E402
from sample import Record, Sample, try_all  # noqa: E402
from source import Source  # noqa: E402
from tally import Tally  # noqa: E402


def function(body):
    return "void f() {\n" + body + "\n}\n"


def made_of(text, operator=None):
    """The lines that come of the mutants of a text."""
    return [m.after for m in mutants_of("a.cpp", text) if operator in (None, m.operator)]


class Tokens(unittest.TestCase):
    def test_are_all_but_comments_directives_and_attributes(self):
        source = Source('#include <x> // y\n[[nodiscard]] int f(); /* a\nb */ auto s = R"(x" + y)"; // z\n#define A \\\n 1 + 2\n')
        self.assertEqual([t.text for t in source.tokens], ["int", "f", "(", ")", ";", "auto", "s", "=", 'R"(x" + y)"', ";"])

    def test_keep_numbers_and_long_operators_whole(self):
        source = Source("x <<= 1'000U + 0xFFu - 1.5e-3; y->z++; a <=> b;")
        self.assertEqual([t.text for t in source.tokens], ["x", "<<=", "1'000U", "+", "0xFFu", "-", "1.5e-3", ";", "y", "->", "z", "++",
                                                           ";", "a", "<=>", "b", ";"])

    def test_know_their_line(self):
        source = Source("a\n\nb")
        self.assertEqual([source.line_of(t.start) for t in source.tokens], [1, 3])


class Mutants(unittest.TestCase):
    def test_of_a_comparison_are_its_other_boundary_and_its_opposite(self):
        self.assertEqual(made_of(function("if (a < b) g();"), "comparison"), ["if (a <= b) g();", "if (a >= b) g();"])

    def test_leave_template_lists_alone(self):
        self.assertEqual(made_of("template <class A, int B = 3>\nstd::array<A, 4> f(std::vector<std::vector<A>> x);\n"), [])
        self.assertEqual(made_of(function("g(std::max<tick>(a, b), static_cast<bool>(c));"), "comparison"), [])

    def test_leave_strings_comments_directives_and_assertions_alone(self):
        self.assertEqual(made_of('#if A > 1\n// a < 1\nstatic_assert(sizeof(A) == 40, "1 < 2");\n#endif\nconst char* s = "a + 1";\n'), [])

    def test_leave_attributes_alone(self):
        self.assertEqual(made_of("[[gnu::aligned(16)]] void f();\n"), [])

    def test_leave_the_values_of_constants_alone(self):
        self.assertEqual(made_of("struct a {\n  static constexpr unsigned none = ~0U;\n  inline constexpr int x = 1 + 2;\n};\n"), [])
        self.assertEqual(made_of("constexpr int f() {\n  return 7;\n}\n"), ["return 6;", "return 8;"])

    def test_leave_pointers_and_references_alone(self):
        self.assertEqual(made_of("void f(a& x, b* y, c&& z) noexcept;\nd& operator=(const d&) = delete;\n"), [])

    def test_of_numbers_are_their_neighbours(self):
        self.assertEqual(made_of(function("x = 64U;"), "off by one"), ["x = 63U;", "x = 65U;"])
        self.assertEqual(made_of(function("x = 0;"), "off by one"), ["x = 1;"])
        self.assertEqual(made_of(function("x = 2.5;"), "off by one"), [])

    def test_of_arithmetic_are_its_opposites(self):
        self.assertEqual(made_of(function("x = a + b;\ny -= *c;\n++z;"), "arithmetic"), ["x = a - b;", "y += *c;", "--z;"])

    def test_of_least_and_most_are_each_other(self):
        self.assertEqual(made_of(function("x = std::min(a, std::numeric_limits<b>::max());"), "extreme"),
                         ["x = std::max(a, std::numeric_limits<b>::max());"])

    def test_negate_conditions_that_no_other_turns_round(self):
        self.assertEqual(made_of(function("if (a) g();\nif (b == c) g();\nif (!d) g();\nwhile (e && f) g();"), "condition"),
                         ["if (!(a)) g();", "while (!(e && f)) g();"])
        self.assertEqual(made_of(function("if (!d) g();"), "negation"), ["if (d) g();"])
        self.assertEqual(made_of(function("if (int i = g(); h(i)) k();\nfor (;l(); ) g();\nfor (x& y : z) g();"), "condition"),
                         ["if (int i = g(); !(h(i))) k();", "for (;!(l()); ) g();"])
        self.assertEqual(made_of(function("x = g(a ? b : c) + (d[0] ? 1 : 2);"), "condition"),
                         ["x = g(!(a) ? b : c) + (d[0] ? 1 : 2);", "x = g(a ? b : c) + (!(d[0]) ? 1 : 2);"])

    def test_drop_operands(self):
        self.assertEqual(made_of(function("if (a && b(1, 2) && c) g();"), "operand"),
                         ["if (b(1, 2) && c) g();", "if (a && c) g();", "if (a && b(1, 2)) g();"])
        self.assertEqual(made_of(function("return a || b && c;"), "operand"),
                         ["return b && c;", "return a;", "return a || c;", "return a || b;"])

    def test_drop_statements_and_no_declarations(self):
        body = "tick a = 1;\nauto& b = c;\nstd::vector<int> d(3);\nx::y* e = z;\na = 2;\nx::g(a);\nif (a) h->i();\nelse break;\nreturn a;"
        self.assertEqual(made_of(function(body), "statement"), ["{}", "{}", "if (a) {}", "else {}"])

    def test_drop_statements_in_lambdas_and_around_them(self):
        self.assertEqual(made_of(function("h([&](auto& x) noexcept { k(x); });\nconst auto l = [&] { m(); };"), "statement"),
                         ["{}", "h([&](auto& x) noexcept { {} });", "const auto l = [&] { {} };"])

    def test_drop_no_members(self):
        text = "namespace a {\nstruct b : c {\n  explicit b(int d) : e{d}, f{d} { g(); }\n  int e = h();\n  i j;\n};\n}\n"
        self.assertEqual(made_of(text, "statement"), ["explicit b(int d) : e{d}, f{d} { {} }"])

    def test_leave_hints_to_the_processor_alone(self):
        self.assertEqual(made_of(function("__builtin_prefetch(&a[i + 4], 1);")), [])

    def test_keep_the_number_of_lines(self):
        text = function("g(a,\n  b);\nh();")
        self.assertEqual({m.apply(text).count("\n") for m in mutants_of("a.cpp", text)}, {text.count("\n")})

    def test_are_named_by_what_they_change_wherever_that_stands(self):
        text = function("if (a < b)  g();  // why")
        there = function("h();\n\n  if (a < b) g();")
        key = mutants_of("a.cpp", text)[0].key
        self.assertEqual(key, "a.cpp: comparison\n- if (a < b) g();\n+ if (a <= b) g();")
        self.assertIn(key, [m.key for m in mutants_of("a.cpp", there)])

    def test_have_each_a_name_of_its_own(self):
        mutants = mutants_of("a.cpp", function("++a;") + function("++a;"))
        self.assertEqual(len({m.key for m in mutants}), len(mutants))
        self.assertIn("a.cpp: statement #2\n- ++a;\n+ {}", [m.key for m in mutants])

    def test_of_the_mutated_files_are_many(self):
        root = here.parents[1]
        for layer in [layer for part in PARTS.values() for layer in part.layers]:
            texts = [p.read_text() for pattern in layer.sources for p in root.glob(pattern)]
            mutants = [m for i, text in enumerate(texts) for m in mutants_of(str(i), text)]
            self.assertGreater(len(mutants), 20)
            self.assertEqual(len({m.key for m in mutants}), len(mutants))


class FakeMutant:
    """What a sample asks of a mutant."""

    file, line, operator = "a.cpp", 1, "comparison"

    def __init__(self, key):
        self.key = key


class FakeWorker:
    """Kills those whose name has a k in it, and cannot compile those with a c."""

    def __init__(self, tried, stop_after=None):
        self._tried = tried
        self._stop_after = stop_after

    def try_mutant(self, mutant):
        if len(self._tried) == self._stop_after:
            raise KeyboardInterrupt
        self._tried.append(mutant.key)
        if "c" in mutant.key:
            return Outcome(NO_CODE)
        return Outcome(KILLED, "a_test.fails") if "k" in mutant.key else Outcome(SURVIVED)


MUTANTS = [FakeMutant(f"{i}{kind}") for i in range(10) for kind in "ksc"]


class Samples(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name) / "outcomes"
        self.addCleanup(setattr, limited, "_stopped", False)

    def run_sample(self, seed, size, jobs=1, stop_after=None):
        tried = []
        tally = Tally(Judgements(""))
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                try_all(Sample(MUTANTS, seed, size), Record(self.path), tally, jobs,
                        lambda: [FakeWorker(tried, stop_after) for _ in range(jobs)])
            except KeyboardInterrupt:
                pass
        return tried, str(tally)

    def test_hold_as_many_as_asked_for_that_compile(self):
        tried, said = self.run_sample(1, 7)
        self.assertEqual(len([m for m in tried if "c" not in m]), 7)
        self.assertTrue(said.startswith("7 mutants: "), said)

    def test_depend_on_the_seed_alone(self):
        tried, _ = self.run_sample(1, 9)
        self.path.unlink()
        again, _ = self.run_sample(1, 9, jobs=3)
        self.assertEqual(set(tried), set(again))
        self.path.unlink()
        other, _ = self.run_sample(2, 9)
        self.assertNotEqual(set(tried), set(other))

    def test_that_were_stopped_go_on_where_they_stopped(self):
        whole, said = self.run_sample(1, 9)
        self.path.unlink()
        first, _ = self.run_sample(1, 9, stop_after=4)
        self.assertEqual(first, whole[:4])
        second, said_then = self.run_sample(1, 9)
        self.assertEqual(second, whole[4:])
        self.assertEqual(said_then, said)
        self.assertEqual(self.run_sample(1, 9), ([], said))

    def test_end_when_there_are_no_more_mutants(self):
        self.assertEqual(len(self.run_sample(1, 1000, jobs=2)[0]), len(MUTANTS))

    def test_survive_a_record_that_ends_amid_a_line(self):
        whole, said = self.run_sample(1, 5)
        self.path.write_text(self.path.read_text()[:-9])
        again, said_then = self.run_sample(1, 5)
        self.assertEqual(again, whole[-1:])
        self.assertEqual(said_then, said)
        self.assertEqual(self.run_sample(1, 5), ([], said))


class Judging(unittest.TestCase):
    LIST = ("# of comparisons\n\na.cpp: comparison\n- a < b\n+ a <= b\nequivalent: they are\n  never equal\n\n"
            "a.cpp: statement #2\n- f();\n+ {}\nhole: nobody looks\n")

    def test_finds_a_verdict_by_what_is_changed(self):
        judgements = Judgements(self.LIST)
        self.assertEqual(judgements.of("a.cpp: comparison\n- a < b\n+ a <= b"), ("equivalent", "they are never equal"))
        self.assertEqual(judgements.of("a.cpp: statement #2\n- f();\n+ {}"), ("hole", "nobody looks"))
        self.assertEqual(judgements.of("a.cpp: statement\n- f();\n+ {}"), ("unjudged", ""))

    def test_says_which_verdicts_are_of_no_mutant(self):
        self.assertEqual(Judgements(self.LIST).unknown({"a.cpp: comparison\n- a < b\n+ a <= b"}), ["a.cpp: statement #2\n- f();\n+ {}"])

    def test_takes_no_verdict_without_a_reason(self):
        for wrong in ("a: b\n- c\n+ d\n", "a: b\n- c\n+ d\nequivalent\n", "a: b\n- c\n+ d\nperhaps: so\n", "a: b\n+ d\n- c\nhole: so\n",
                      "a: b\n- c\n+ d\nhole: so\n\na: b\n- c\n+ d\nhole: so\n"):
            with self.assertRaises(MutationError):
                Judgements(wrong)

    def test_of_the_lists_in_the_tree_can_be_read(self):
        for part in PARTS:
            Judgements((here / "survivors" / part).read_text())


class Tallies(unittest.TestCase):
    def tally(self, *outcomes, judged=""):
        tally = Tally(Judgements(judged))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            for number, outcome in enumerate(outcomes):
                tally.add(FakeMutant(f"a.cpp: b\n- {number}\n+ x"), outcome)
        return tally, said.getvalue()

    def test_show_what_a_survivor_changes(self):
        _, said = self.tally(Outcome(SURVIVED))
        self.assertIn("SURVIVED    a.cpp:1: comparison\n", said)
        self.assertIn("- 0\n            + x\n", said)

    def test_name_the_test_that_killed(self):
        self.assertIn("by a_test.fails", self.tally(Outcome(KILLED, "a_test.fails"))[1])

    def test_leave_out_what_is_equivalent_or_no_mutant(self):
        outcomes = [Outcome(SURVIVED)] + 9 * [Outcome(KILLED, "t")] + [Outcome(SURVIVED), Outcome(NO_CODE), Outcome(SAME_CODE)]
        tally, _ = self.tally(*outcomes, judged="a.cpp: b\n- 0\n+ x\nequivalent: so\n\na.cpp: b\n- 10\n+ x\nhole: so\n")
        self.assertEqual(tally.percentage, 90)
        self.assertTrue(tally.is_good())
        self.assertFalse(self.tally(*outcomes)[0].is_good())

    def test_say_when_what_was_judged_is_killed(self):
        self.assertIn("the list of survivors says", self.tally(Outcome(KILLED, "t"), judged="a.cpp: b\n- 0\n+ x\nhole: so\n")[1])


class Trials(unittest.TestCase):
    def test_name_the_test_that_fails_crashes_or_hangs(self):
        said = "[ RUN      ] a.b\n[       OK ] a.b (0 ms)\n[ RUN      ] a.c/1\n"
        self.assertEqual(what_failed(said, False, -11), "a.c/1, which crashes")
        self.assertEqual(what_failed(said, True, None), "a.c/1, which does not end")
        self.assertEqual(what_failed(said + "[  FAILED  ] a.c/1, where GetParam() = 3 (2 ms)\n", False, 1), "a.c/1")
        self.assertEqual(what_failed("", False, -6), "the program, which crashes")

    def run_limited(self, *command, **limits):
        with tempfile.TemporaryDirectory() as directory:
            return limited.run(command, directory, pathlib.Path(directory) / "said", **limits)

    def test_answer_how_a_program_ends(self):
        self.assertEqual(self.run_limited("true"), (limited.ENDED, 0))
        self.assertEqual(self.run_limited("false"), (limited.ENDED, 1))
        self.assertEqual(self.run_limited("sh", "-c", "kill -SEGV $$"), (limited.ENDED, -11))

    def test_end_programs_that_do_not(self):
        self.assertEqual(self.run_limited("sh", "-c", "while :; do :; done", seconds=1), (limited.HUNG, None))

    def test_end_programs_that_wait_for_ever(self):
        self.addCleanup(setattr, limited, "ASLEEP_SECONDS", limited.ASLEEP_SECONDS)
        limited.ASLEEP_SECONDS = 0.1
        self.assertEqual(self.run_limited("sleep", "1000"), (limited.HUNG, None))


if __name__ == "__main__":
    unittest.main()
