# Read by ESP-IDF before any component, so that every component may have models.

# stowplan_idf_model(<name> MODEL <file> MEM <size>... [words of stowplan_add_model]...)
#
# Makes a model a library and links it to the component whose CMakeLists.txt calls this, after idf_component_register().
function(stowplan_idf_model name)
  if(NOT COMPONENT_LIB)
    message(FATAL_ERROR "stowplan_idf_model(${name}): call it after idf_component_register()")
  endif()
  find_package(stowplan 0.1 CONFIG REQUIRED NO_CMAKE_FIND_ROOT_PATH)
  stowplan_add_model(${name} ${ARGN})
  idf_build_get_property(options COMPILE_OPTIONS GENERATOR_EXPRESSION)
  target_compile_options(${name} PRIVATE "${options}")
  target_link_libraries(${COMPONENT_LIB} PRIVATE ${name})
endfunction()
