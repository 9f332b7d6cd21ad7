"""What is mutated, and which tests have to notice."""


class Layer:
    def __init__(self, name, sources, programs):
        self.name = name
        self.sources = sources    # patterns of the files that are mutated
        self.programs = programs  # pattern of the programs of its tests, as they lie in the build


LAYERS = (
    Layer("core", ("src/core/*.hpp", "src/core/*.cpp", "include/tickwheel/core/wheel.hpp"), "tests/core/*"),
    Layer("inbox", ("include/tickwheel/uv/detail/inbox.hpp",), "tests/inbox_test"),
)

# without libuv: there is the library's core, and the inbox has a program of its own
MESON_OPTIONS = ("-Duv=disabled", "-Dbench=disabled", "-Dexamples=disabled", "-Dbuildtype=debugoptimized", "-Db_ndebug=false",
                 "-Doptimization=1", "-Dcpp_args=-g0")
