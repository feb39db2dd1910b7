# find_package(stowplan CONFIG): finds the command and brings stowplan_add_model().
#
# The command is STOWPLAN_EXECUTABLE if that is set, else the one of the Python environment that holds this file, else
# that of an active environment or of PATH.
cmake_minimum_required(VERSION 3.21...4.0)

function(_stowplan_find_command result)
  if(STOWPLAN_EXECUTABLE)
    set(${result} "${STOWPLAN_EXECUTABLE}" PARENT_SCOPE)
    return()
  endif()
  set(hints)
  foreach(up "../../.." "../../../../.." "../../../..")  # from share/cmake/stowplan, lib/pythonX/site-packages/..., Lib/...
    get_filename_component(prefix "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${up}" ABSOLUTE)
    list(APPEND hints "${prefix}/bin" "${prefix}/Scripts")
  endforeach()
  # It runs here, also when what is built does not: no root folder and no cross compiler's emulator is meant for it.
  find_program(found NAMES stowplan HINTS ${hints} "$ENV{VIRTUAL_ENV}/bin" "$ENV{VIRTUAL_ENV}/Scripts" NO_CACHE
               NO_CMAKE_FIND_ROOT_PATH)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

_stowplan_find_command(_stowplan_command)
if(NOT _stowplan_command)
  set(stowplan_FOUND FALSE)
  set(stowplan_NOT_FOUND_MESSAGE
      "the command stowplan is neither beside ${CMAKE_CURRENT_LIST_DIR} nor on PATH; set STOWPLAN_EXECUTABLE to it")
  return()
endif()

execute_process(COMMAND "${_stowplan_command}" --version OUTPUT_VARIABLE _stowplan_version ERROR_VARIABLE _stowplan_error
                RESULT_VARIABLE _stowplan_result OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(NOT _stowplan_result STREQUAL "0" OR NOT _stowplan_version MATCHES "^stowplan ([0-9.]+)")
  set(stowplan_FOUND FALSE)
  set(stowplan_NOT_FOUND_MESSAGE
      "${_stowplan_command} --version does not run (${_stowplan_result} ${_stowplan_error}); install stowplan again or set STOWPLAN_EXECUTABLE")
  return()
endif()
if(NOT CMAKE_MATCH_1 VERSION_EQUAL stowplan_VERSION)
  set(stowplan_FOUND FALSE)
  set(stowplan_NOT_FOUND_MESSAGE
      "${_stowplan_command} is ${CMAKE_MATCH_1}, but its CMake package is ${stowplan_VERSION}; install both in one environment")
  return()
endif()

if(NOT TARGET stowplan::stowplan)
  add_executable(stowplan::stowplan IMPORTED)
  set_target_properties(stowplan::stowplan PROPERTIES IMPORTED_LOCATION "${_stowplan_command}" CROSSCOMPILING_EMULATOR "")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/stowplanModel.cmake")
