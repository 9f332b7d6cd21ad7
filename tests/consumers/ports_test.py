"""The port for vcpkg and the recipe for Conan fit the build by CMake, as far as neither program is needed to see that."""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"^  version: '([0-9.]+)'", (ROOT / "meson.build").read_text(), re.MULTILINE)[1]
FEATURE_SETS = [set(), {"sqlite"}, {"postgres"}, {"sqlite", "postgres"}]

# The functions of vcpkg that the port calls. They print the configuration.
VCPKG = """
cmake_minimum_required(VERSION 3.24)
function(vcpkg_from_git)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_SOURCE_PATH;URL;REF" "")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_URL OR NOT arg_REF MATCHES "^[0-9a-f]+$")
    message(FATAL_ERROR "vcpkg_from_git: wrong arguments")
  endif()
  set(${arg_OUT_SOURCE_PATH} "@ROOT@" PARENT_SCOPE)
endfunction()
function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
  set(options "")
  while(arg_FEATURES)
    list(POP_FRONT arg_FEATURES feature option)
    if(feature IN_LIST FEATURES)
      list(APPEND options -D${option}=ON)
    else()
      list(APPEND options -D${option}=OFF)
    endif()
  endwhile()
  set(${arg_OUT_FEATURE_OPTIONS} ${options} PARENT_SCOPE)
endfunction()
function(vcpkg_find_acquire_program name)
  set(${name} pkg-config PARENT_SCOPE)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS OR NOT EXISTS "${arg_SOURCE_PATH}/CMakeLists.txt")
    message(FATAL_ERROR "vcpkg_cmake_configure: wrong arguments")
  endif()
  foreach(option ${arg_OPTIONS})
    message("option ${option}")
  endforeach()
endfunction()
function(vcpkg_copy_tools)
  message("tools")
endfunction()
function(vcpkg_cmake_install)
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  if(NOT EXISTS "${arg_FILE_LIST}")
    message(FATAL_ERROR "vcpkg_install_copyright: ${arg_FILE_LIST} is missing")
  endif()
endfunction()
"""


def stores_of(options):
    """Configures with these options, and returns which stores are built: SQLite, PostgreSQL."""
    with tempfile.TemporaryDirectory() as build:
        done = subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DBUILD_SHARED_LIBS=OFF", *options], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0 or "not used by the project" in done.stdout:
            raise AssertionError(done.stdout)
        package = next(pathlib.Path(build).rglob("tickwheelConfig.cmake")).read_text()
        return {store for store, condition in (("sqlite", r"if\(TRUE AND .*\n *find_package\(SQLite3"),
                                               ("postgres", r"if\(TRUE AND .*\n *# not CMake's own module"))
                if re.search(condition, package)}


class Vcpkg(unittest.TestCase):
    def test_manifest_has_name_version_and_features(self):
        manifest = json.loads((ROOT / "packaging/vcpkg/vcpkg.json").read_text())
        self.assertEqual(("tickwheel", VERSION), (manifest["name"], manifest["version-semver"]))
        self.assertEqual({"sqlite", "postgres"}, set(manifest["features"]))
        for needs in (manifest, *manifest["features"].values()):
            self.assertTrue(needs["description"] and needs["dependencies"])

    def test_port_builds_the_stores_of_its_features(self):
        for features in FEATURE_SETS:
            with self.subTest(features=features), tempfile.TemporaryDirectory() as folder:
                stubs = pathlib.Path(folder) / "stubs.cmake"
                stubs.write_text(VCPKG.replace("@ROOT@", str(ROOT)) + f"set(FEATURES {' '.join(sorted(features))})\n"
                                 + f'include("{ROOT}/packaging/vcpkg/portfile.cmake")\n')
                done = subprocess.run(["cmake", "-P", stubs], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(0, done.returncode, done.stdout)
                self.assertEqual(features, stores_of(re.findall("^option (.*)$", done.stdout, re.MULTILINE)))
                self.assertEqual(features == {"sqlite", "postgres"}, "tools" in done.stdout.split())


def recipe_and_toolchain():
    """The recipe, with modules in the place of Conan's that record the cache variables."""
    class Toolchain:
        variables = {}

        def __init__(self, recipe):
            self.cache_variables = Toolchain.variables = {}

        def generate(self):
            pass

    class Generator(Toolchain):
        def __init__(self, recipe):
            pass

    modules = {"conan": {"ConanFile": object},
               "conan.tools": {},
               "conan.tools.cmake": {"CMake": object, "CMakeDeps": Generator, "CMakeToolchain": Toolchain, "cmake_layout": None},
               "conan.tools.files": {"copy": None, "load": lambda recipe, path: pathlib.Path(path).read_text()},
               "conan.tools.gnu": {"PkgConfigDeps": Generator}}
    for name, names in modules.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(names)
    path = ROOT / "packaging/conan/conanfile.py"
    spec = importlib.util.spec_from_file_location("conanfile", path)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    recipe = module.TickwheelConan()
    recipe.recipe_folder = str(path.parent)
    return recipe, Toolchain


class Conan(unittest.TestCase):
    def test_recipe_has_name_and_version(self):
        recipe, _ = recipe_and_toolchain()
        recipe.set_version()
        self.assertEqual(("tickwheel", VERSION), (recipe.name, recipe.version))
        self.assertEqual(set(recipe.options), set(recipe.default_options))

    def test_recipe_builds_the_stores_of_its_options(self):
        for features in FEATURE_SETS:
            with self.subTest(features=features):
                recipe, toolchain = recipe_and_toolchain()
                recipe.options = types.SimpleNamespace(sqlite="sqlite" in features, postgres="postgres" in features)
                recipe.generate()
                self.assertEqual(features, stores_of(f"-D{name}={value}" for name, value in toolchain.variables.items()))


if __name__ == "__main__":
    unittest.main()
