"""Conan recipe: builds qinfer out of this tree on the system's packages, as `cmake --install` has it.

    conan create .                              the shared library
    conan create . -o "qinfer/*:shared=False"   the static one

tests/packages/conan is the package's test.
"""
from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import load
from conan.tools.system.package_manager import Apt
import os
import re


class Qinfer(ConanFile):
    name = "qinfer"
    description = "An embeddable library that runs language models on CPUs"
    license = "Apache-2.0"
    topics = ("llm", "inference", "cpu", "gguf")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "self_contained": [True, False]}
    default_options = {"shared": True, "self_contained": True}
    exports_sources = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "cmake/*", "src/*", "kernels/*", "capi/*",
                       "include/*", "grammar/*", "docs/qinfer.1")
    package_type = "library"
    test_package_folder = "tests/packages/conan"

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "CMakeLists.txt"))
        self.version = re.search(r"project\(qinfer VERSION ([0-9.]+)", text).group(1)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        # Headers and an archive for the build. They are named where they are missing, and installed where Conan may
        # (tools.system.package_manager:mode=install).
        Apt(self).install(["libfmt-dev", "rapidjson-dev", "libutf8proc-dev", "libhwy-dev", "pkg-config"], check=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["QINFER_BUILD_SHARED"] = bool(self.options.shared)
        toolchain.cache_variables["QINFER_BUILD_STATIC"] = not self.options.shared
        toolchain.cache_variables["QINFER_SELF_CONTAINED"] = bool(self.options.self_contained)
        for option in ("QINFER_BUILD_TESTS", "QINFER_BUILD_EXAMPLES", "QINFER_BUILD_GRAMMAR"):
            toolchain.cache_variables[option] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.libs = ["qinfer"]
        self.cpp_info.set_property("cmake_file_name", "qinfer")
        self.cpp_info.set_property("cmake_target_name", "qinfer::qinfer")
        self.cpp_info.set_property("pkg_config_name", "qinfer")
        if not self.options.shared:
            self.cpp_info.system_libs = ["stdc++", "m", "pthread"]
            if not self.options.self_contained:
                self.cpp_info.system_libs.insert(0, "utf8proc")
