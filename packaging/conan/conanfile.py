"""A recipe for Conan 2, of the tree that it is in: `conan create packaging/conan`."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.gnu import PkgConfigDeps


class TickwheelConan(ConanFile):
    name = "tickwheel"
    description = "Timers for libuv servers: one timing wheel a loop"
    license = "MIT"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "sqlite": [True, False], "postgres": [True, False]}
    default_options = {"shared": False, "sqlite": False, "postgres": False}

    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        self.version = re.search(r"^  version: '([0-9.]+)'", load(self, os.path.join(self._root(), "meson.build")), re.MULTILINE)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "meson.build", "LICENSE", "include/*", "src/*", "packaging/*"):
            copy(self, pattern, self._root(), self.export_sources_folder)

    def requirements(self):
        self.requires("libuv/[>=1.44 <2]", transitive_headers=True, transitive_libs=True)
        self.requires("boost/[>=1.74]", transitive_headers=True)
        if self.options.sqlite:
            self.requires("sqlite3/[>=3.40 <4]")
        if self.options.postgres:
            self.requires("libpq/[>=14]")

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.24]")
        self.tool_requires("pkgconf/[>=1.9]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()  # CMakeLists.txt finds libpq by pkg-config, and a libuv before 1.45
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["TICKWHEEL_DURABLE"] = "ON" if self.options.sqlite or self.options.postgres else "OFF"
        toolchain.cache_variables["TICKWHEEL_DURABLE_SQLITE"] = "ON" if self.options.sqlite else "OFF"
        toolchain.cache_variables["TICKWHEEL_DURABLE_POSTGRES"] = "ON" if self.options.postgres else "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        timers = self.cpp_info.components["tickwheel"]
        timers.set_property("cmake_target_name", "tickwheel::tickwheel")
        timers.set_property("pkg_config_name", "tickwheel")
        timers.libs = ["tickwheel"]
        timers.requires = ["libuv::libuv", "boost::headers"]
        timers.system_libs = ["pthread"]
        if self.options.sqlite or self.options.postgres:
            durable = self.cpp_info.components["durable"]
            durable.set_property("cmake_target_name", "tickwheel::durable")
            durable.set_property("pkg_config_name", "tickwheel-durable")
            durable.libs = ["tickwheel-durable"]
            durable.requires = ["tickwheel"]
            if self.options.sqlite:
                durable.requires.append("sqlite3::sqlite3")
            if self.options.postgres:
                durable.requires.append("libpq::pq")
