# find_package(stowplan) where only CMAKE_MODULE_PATH leads here, and with toolchain files that confine packages to a root.
set(stowplan_DIR "${CMAKE_CURRENT_LIST_DIR}")
find_package(stowplan ${stowplan_FIND_VERSION} CONFIG QUIET)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(stowplan CONFIG_MODE)
