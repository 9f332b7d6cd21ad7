# An overlay port: give vcpkg this folder by --overlay-ports. The URL and REF are placeholders: put your url and the commit of the version
# there.
vcpkg_from_git(
  OUT_SOURCE_PATH SOURCE_PATH
  URL https://git.example.org/tickwheel.git
  REF 0000000000000000000000000000000000000000
)

vcpkg_check_features(OUT_FEATURE_OPTIONS stores
  FEATURES
    sqlite TICKWHEEL_DURABLE_SQLITE
    postgres TICKWHEEL_DURABLE_POSTGRES
)
set(durable OFF)
if("sqlite" IN_LIST FEATURES OR "postgres" IN_LIST FEATURES)
  set(durable ON)
endif()

# Programs of all build types link the release library. Its CMake package is found from the folder where it is installed.
set(VCPKG_BUILD_TYPE release)
set(VCPKG_POLICY_SKIP_MISPLACED_CMAKE_FILES_CHECK enabled)
vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}"
    -DTICKWHEEL_DURABLE=${durable}
    ${stores}
)
vcpkg_cmake_install()
vcpkg_fixup_pkgconfig()
if("sqlite" IN_LIST FEATURES AND "postgres" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES tickwheel-durable-move AUTO_CLEAN)
endif()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
