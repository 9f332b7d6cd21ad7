"""What is mutated, and which tests have to notice."""


class Layer:
    def __init__(self, name, sources, programs):
        self.name = name
        self.sources = sources    # patterns of the files that are mutated
        self.programs = programs  # patterns of the programs of its tests, as they lie in the build; the quickest first


class Part:
    """Layers that are built and mutated together."""

    def __init__(self, name, layers, meson_options, libraries, tests):
        self.name = name
        self.layers = layers
        self.meson_options = (*meson_options, "-Dbench=disabled", "-Dexamples=disabled", "-Dbuildtype=debugoptimized", "-Db_ndebug=false",
                              "-Doptimization=1", "-Dcpp_args=-g0", "-Db_pch=false")
        self.libraries = ("-lgmock", "-lgtest", "-lgtest_main", "-pthread", *libraries)
        self.tests = tests  # directories that the tests are compiled from


# without libuv: there is the library's core, and the inbox has a program of its own
CORE = Part(
    "core",
    (Layer("core", ("src/core/*.hpp", "src/core/*.cpp", "include/tickwheel/core/wheel.hpp"), ("tests/core/*",)),
     Layer("inbox", ("include/tickwheel/uv/detail/inbox.hpp",), ("tests/inbox_test",))),
    ("-Duv=disabled",), (), ("tests/core", "tests/support", "tests/uv"))

# with tasks in memory: a store that is a database has nothing to do with what the engine does
DURABLE = Part(
    "durable",
    (Layer("engine", ("src/durable/engine/*.hpp", "src/durable/engine/*.cpp"),
           ("tests/durable/scheduler/*", "tests/durable/model/durable_model_limits_tests", "tests/durable/model/durable_model_tests")),),
    ("-Ddurable=enabled", "-Ddurable_sqlite=disabled", "-Ddurable_postgres=disabled"), ("-luv",),
    ("tests/durable", "tests/support"))

PARTS = {part.name: part for part in (CORE, DURABLE)}
