"""Compares the build by Meson with the one by CMake: sources, flags, options and installed files.

    same_builds.py WORK                         configures both, in several ways, in the folder WORK, and compiles nothing
    same_builds.py --installed MESON CMAKE      compares two prefixes where each has installed what it has built

Each difference is one line. Ends with code 1 if there is any.
"""
import collections
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The options that only one of them has.
ONLY_MESON = {"tests", "bench", "examples", "mimalloc", "fuzz"}  # CMake builds the library, and nothing else

# Flags that change what is compiled. Warnings are for those who work on tickwheel.
FLAG = re.compile(r"-(D|O|f|g|m|pthread|std=)")
IGNORED = {
    "-fdiagnostics-color=always",
    "-DBOOST_ALL_NO_LIB",  # Meson's, for Microsoft's compiler
    "-pthread",  # CMake leaves it out where the C library has the threads
}

# The values of the options by CMake. Meson says enabled and disabled, or true and false.
CONFIGURATIONS = {
    "everything": {"durable": "ON", "durable_sqlite": "ON", "durable_postgres": "ON"},
    "PostgreSQL only": {"durable": "ON", "durable_sqlite": "OFF", "durable_postgres": "ON"},
    "without durable timers, and without probes": {"durable": "OFF", "usdt": "OFF"},
    "without the cycle counter": {"durable": "OFF", "cycle_counter": "OFF"},
    "only the wheel": {"uv": "OFF"},
}
SWITCHES = {"cycle_counter"}  # those that Meson calls boolean; the others are features
MESON_VALUES = {"ON": "enabled", "OFF": "disabled", "AUTO": "auto"}


def meson_value(option, value):
    return str(value == "ON").lower() if option in SWITCHES else MESON_VALUES[value]


differences = []


def differ(what, of_meson, of_cmake):
    """Reports the elements that only one of two sets has."""
    for elements, only in ((of_meson - of_cmake, "Meson"), (of_cmake - of_meson, "CMake")):
        differences.extend(f"{what}: only {only} has {element}" for element in sorted(elements))


def run(*command, cwd=ROOT):
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nsame_builds: {shlex.join(map(str, command))} failed, as shown above")
    return done.stdout


def compiled(build):
    """The flags of each file of the library, by its name."""
    files = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        path = (pathlib.Path(command["directory"]) / command["file"]).resolve()
        if path.is_relative_to(ROOT / "src"):
            flags = [word for word in shlex.split(command["command"]) if FLAG.match(word)]
            levels = [word for word in flags if word.startswith("-O")]  # the last one counts
            files[str(path.relative_to(ROOT))] = set(flags) - IGNORED - set(levels[:-1])
    return files


def compare_compiled(name, of_meson, of_cmake):
    differ(f"{name}, sources", set(of_meson), set(of_cmake))
    files = collections.defaultdict(list)
    for file in sorted(set(of_meson) & set(of_cmake)):
        for flag in of_meson[file] ^ of_cmake[file]:
            files["Meson" if flag in of_meson[file] else "CMake", flag].append(file)
    differences.extend(f"{name}, flags: only {only} has {flag}, for {these[0]} and {len(these) - 1} others"
                       for (only, flag), these in sorted(files.items()))


def compare_options():
    options = re.findall(r"option\('(\w+)', type: '\w+', value: '?(\w+)", (ROOT / "meson_options.txt").read_text())
    cmake = (ROOT / "CMakeLists.txt").read_text()
    features = re.findall(r"tickwheel_feature\((\w+) (\w+) \"", cmake)
    switches = re.findall(r"\noption\(TICKWHEEL_(\w+) \"[^\"]*\" (\w+)\)", cmake)
    if not options or not features or not switches:
        sys.exit("same_builds: options were found in neither meson_options.txt nor CMakeLists.txt, or only in one")
    differ("options, with their defaults", {f"{name}={value}" for name, value in options if name not in ONLY_MESON},
           {f"{name.lower()}={meson_value(name.lower(), value)}" for name, value in features + switches})


def files_of(prefix):
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_symlink() or not path.is_dir()}


def installed(build, outputs, *install):
    """The names of installed files. Empty files stand for all that would have been built."""
    for output in outputs:
        file = build / output
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    run(*install)


def compare_texts(name, of_meson, of_cmake):
    """The installed texts are the same, except for the prefix."""
    for file in sorted(files_of(of_meson) & files_of(of_cmake)):
        if file.endswith((".hpp", ".h", ".pc", ".cmake", ".py", ".bt")):
            lines = [set((prefix / file).read_text().replace(str(prefix), "PREFIX").splitlines()) for prefix in (of_meson, of_cmake)]
            differ(f"{name}, {file}", *lines)


def compare_configuration(work, name, options):
    folder = work / name.replace(",", "").replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    meson, cmake = folder / "meson", folder / "cmake"
    run("meson", "setup", meson, ROOT, "--prefix", folder / "by-meson", "--libdir", "lib",
        *(f"-D{option}=disabled" for option in ONLY_MESON),
        *(f"-D{option}={meson_value(option, value)}" for option, value in options.items()))
    run("cmake", "-S", ROOT, "-B", cmake, "-G", "Ninja", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_SKIP_RPATH=ON",
        f"-DCMAKE_INSTALL_PREFIX={folder / 'by-cmake'}", "-DCMAKE_INSTALL_LIBDIR=lib",
        *(f"-DTICKWHEEL_{option.upper()}={value}" for option, value in options.items()))
    compare_compiled(name, compiled(meson), compiled(cmake))

    targets = json.loads(run("meson", "introspect", "--targets", meson))
    installed(meson, [file for target in targets if target["installed"] for file in target["filename"]],
              "meson", "install", "-C", meson, "--no-rebuild")
    linked = re.findall(r"^(.*): (?:CXX_\w+_LINKER_|CMAKE_SYMLINK_)", run("ninja", "-C", cmake, "-t", "targets", "all"), re.MULTILINE)
    installed(cmake, linked, "cmake", "--install", cmake)
    of_meson, of_cmake = files_of(folder / "by-meson"), files_of(folder / "by-cmake")
    if "lib/libtickwheel.so" not in of_meson:
        sys.exit("same_builds: Meson has installed no library")
    differ(f"{name}, installed files", of_meson, of_cmake)
    compare_texts(name, folder / "by-meson", folder / "by-cmake")


def compare_installed(of_meson, of_cmake):
    differ("installed files", files_of(of_meson), files_of(of_cmake))
    compare_texts("installed", of_meson, of_cmake)
    for file in sorted(files_of(of_meson) & files_of(of_cmake)):
        paths = (of_meson / file, of_cmake / file)
        if any(path.is_symlink() for path in paths):
            differ(f"link {file}", *({str(path.readlink()) if path.is_symlink() else "a file"} for path in paths))
        elif ".so" in file:
            differ(f"{file}, soname and needed libraries",
                   *({" ".join(line.split()[1:]) for line in run("readelf", "-d", path).splitlines()
                      if re.search("SONAME|NEEDED|RPATH|RUNPATH|SYMBOLIC", line)} for path in paths))
            # A weak function is a template, or inline. Which of them the compiler puts in line depends on the other files of a
            # unity build, which CMake's is here.
            differ(f"{file}, exported names",
                   *({name for _, kind, name in map(str.split, run("nm", "-D", "--defined-only", path).splitlines()) if kind != "W"}
                     for path in paths))


if sys.argv[1] == "--installed":
    compare_installed(*(pathlib.Path(path).resolve() for path in sys.argv[2:4]))
else:
    compare_options()
    for name, options in CONFIGURATIONS.items():
        compare_configuration(pathlib.Path(sys.argv[1]).resolve(), name, options)
for difference in differences:
    print(f"same_builds: {difference}")
sys.exit(bool(differences))
