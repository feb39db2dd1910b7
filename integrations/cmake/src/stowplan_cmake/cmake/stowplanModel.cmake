# stowplan_add_model(): a model as a library target, made by the command stowplan.
include_guard(DIRECTORY)

# stowplan_add_model(<target> MODEL <file> MEM <size>...
#     [FLASH <size>] [COMPRESS <name>] [SCHEDULER <name>] [INPUT_SHAPE <name:shape>...] [STREAM_INPUT <name>...]
#     [XIP] [KEEP_NAMES] [NO_PROVE] [NAME <prefix>] [TYPE STATIC|OBJECT|SHARED] [DEPENDS <file or target>...])
#
# Makes <prefix>.stow, .c and .h; the functions in C begin with <prefix>, which is <target> made fit for C unless given.
function(stowplan_add_model target)
  cmake_parse_arguments(PARSE_ARGV 1 A "XIP;KEEP_NAMES;NO_PROVE" "MODEL;NAME;TYPE;FLASH;COMPRESS;SCHEDULER"
                        "MEM;INPUT_SHAPE;STREAM_INPUT;DEPENDS")
  _stowplan_check("${target}")
  if("${A_NAME}" STREQUAL "")
    string(MAKE_C_IDENTIFIER "${target}" A_NAME)
  endif()
  if("${A_TYPE}" STREQUAL "")
    set(A_TYPE STATIC)
  endif()
  get_filename_component(model "${A_MODEL}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  get_property(generated SOURCE "${model}" PROPERTY GENERATED)
  if(NOT generated AND NOT A_DEPENDS)
    _stowplan_check_model("${target}" "${model}")
  elseif(generated)
    list(APPEND A_DEPENDS "${model}")
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/stowplan/${target}")
  get_property(multi GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(multi)
    string(APPEND folder "/$<CONFIG>")  # options may differ by configuration, so their files do
  endif()
  set(stem "${folder}/${A_NAME}")

  add_library(${target} ${A_TYPE})
  foreach(option MEM INPUT_SHAPE STREAM_INPUT FLASH COMPRESS SCHEDULER XIP KEEP_NAMES NO_PROVE)
    if(NOT "${A_${option}}" STREQUAL "")  # 0 is a value, too, for the command to judge
      set_property(TARGET ${target} PROPERTY STOWPLAN_${option} "${A_${option}}")
    endif()
  endforeach()
  if(STOWPLAN_ONE_PROCESS)
    _stowplan_enqueue("${target}" "${model}" "${stem}" "${A_NAME}" "${A_DEPENDS}")
  else()
    _stowplan_goal(goal rule "${stem}")
    _stowplan_options(options "${target}" "$<SEMICOLON>" "$<SEMICOLON>")
    _stowplan_rule("${target}" "${goal}" "${rule}" "${stem}.stow;${stem}.c;${stem}.h" "${A_DEPENDS}"
                   compile "${model}" -q -o "${stem}.stow" --codegen "${stem}.c" --name "${A_NAME}" "${options}"
                   --depfile "${rule}" --depfile-target "${goal}")
  endif()

  target_sources(${target} PRIVATE "${stem}.c" "${stem}.h")
  target_compile_features(${target} PRIVATE c_std_11)
  if(NOT MSVC)  # the same bytes everywhere: a multiplication and an addition are two roundings
    target_compile_options(${target} PRIVATE -ffp-contract=off)
    target_link_libraries(${target} PRIVATE -lm)  # not m: a model may be called that
  endif()
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${folder}>" "$<INSTALL_INTERFACE:include>")
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C PUBLIC_HEADER "${stem}.h" STOWPLAN_PLAN "${stem}.stow"
                        STOWPLAN_SOURCE "${stem}.c" STOWPLAN_HEADER "${stem}.h")
endfunction()

# Refuse what makes no sense, at the line that calls the function.
macro(_stowplan_check target)
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "stowplan_add_model(${target}): unknown words: ${A_UNPARSED_ARGUMENTS}")
  endif()
  if(A_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "stowplan_add_model(${target}): nothing follows ${A_KEYWORDS_MISSING_VALUES}")
  endif()
  if(NOT A_MODEL)
    message(FATAL_ERROR "stowplan_add_model(${target}): MODEL is missing; name the model's file")
  endif()
  if(A_TYPE AND NOT A_TYPE MATCHES "^(STATIC|OBJECT|SHARED)$")
    message(FATAL_ERROR "stowplan_add_model(${target}): TYPE ${A_TYPE}: write STATIC, OBJECT or SHARED")
  endif()
  get_property(_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "C" IN_LIST _languages)
    message(FATAL_ERROR "stowplan_add_model(${target}): a model becomes C; add C to the languages of project()")
  endif()
endmacro()

# Let the command say itself what is wrong with a file that is not there.
function(_stowplan_check_model target model)
  if(NOT EXISTS "${model}")
    get_property(command TARGET stowplan::stowplan PROPERTY IMPORTED_LOCATION)
    execute_process(COMMAND "${command}" inspect "${model}" OUTPUT_QUIET ERROR_VARIABLE said ERROR_STRIP_TRAILING_WHITESPACE)
    message(FATAL_ERROR "stowplan_add_model(${target}): ${said}\nIf it is made by the build, name what makes it with DEPENDS.")
  endif()
endfunction()

# Set <result> to the optional arguments of `stowplan compile`, with <between> and <after> the words. Properties are read
# when the build files are written, so that set_target_properties() after the call counts.
function(_stowplan_options result target between after)
  macro(_value option)  # v is the property's value; an expression that begins with given is there if that is not empty
    set(v "$<TARGET_GENEX_EVAL:${target},$<TARGET_PROPERTY:${target},STOWPLAN_${option}>>")
    set(given "$<$<NOT:$<STREQUAL:${v},>>:")
  endmacro()
  _value(MEM)
  set(words "${given}-m${between}$<JOIN:${v},+>${after}>")
  foreach(option FLASH COMPRESS SCHEDULER)
    _value(${option})
    string(TOLOWER "${option}" flag)
    string(APPEND words "${given}--${flag}${between}${v}${after}>")
  endforeach()
  foreach(option INPUT_SHAPE STREAM_INPUT)
    _value(${option})
    string(REPLACE "_" "-" flag "${option}")
    string(TOLOWER "--${flag}" flag)
    string(APPEND words "${given}${flag}=$<JOIN:${v},${after}${flag}=>${after}>")
  endforeach()
  foreach(option XIP KEEP_NAMES NO_PROVE)
    _value(${option})
    string(REPLACE "_" "-" flag "${option}")
    string(TOLOWER "--${flag}" flag)
    string(APPEND words "$<$<BOOL:${v}>:${flag}${after}>")
  endforeach()
  set(${result} "${words}" PARENT_SCOPE)
endfunction()

# Set <goal> to the file whose time says when the command ran, <rule> to its depfile. Ninja stops where an output kept its
# bytes, so there it is the plan; make would go on comparing times for ever, so there it is a stamp.
function(_stowplan_goal goal rule stem)
  set(${rule} "${stem}.d" PARENT_SCOPE)
  if(CMAKE_GENERATOR MATCHES "Ninja")
    set(${goal} "${stem}.stow" PARENT_SCOPE)
  else()
    set(${goal} "${stem}.stamp" PARENT_SCOPE)
  endif()
endfunction()

# Add the rule that makes the products of some targets by a command, whose words follow.
function(_stowplan_rule targets goal rule products depends)
  set(outputs ${products})
  set(stamping)
  if(goal IN_LIST products)
    list(REMOVE_ITEM outputs "${goal}")
    list(PREPEND outputs "${goal}")  # ninja reads the depfile as that of the first one
  else()
    set(outputs "${goal}")
    set(stamping COMMAND "${CMAKE_COMMAND}" -E touch "${goal}")
    # Runs where a product is missing: make then takes it for new, and makes the stamp again. One rule for each, since
    # of the outputs of one rule make would touch those that are there.
    foreach(product IN LISTS products)
      get_filename_component(folder "${product}" DIRECTORY)
      add_custom_command(OUTPUT "${product}" COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}" VERBATIM)
    endforeach()
    list(APPEND depends ${products})
    list(GET targets 0 first)
    add_custom_target(${first}_stowplan DEPENDS "${goal}")
    foreach(target IN LISTS targets)
      add_dependencies(${target} ${first}_stowplan)
    endforeach()
  endif()
  list(JOIN targets " " names)
  add_custom_command(OUTPUT ${outputs} COMMAND stowplan::stowplan ${ARGN} ${stamping} DEPENDS ${depends} DEPFILE "${rule}"
                     COMMENT "Fitting ${names} into memory" COMMAND_EXPAND_LISTS VERBATIM)
  set_property(DIRECTORY APPEND PROPERTY ADDITIONAL_CLEAN_FILES "${rule}" ${products})
endfunction()

# Remember one model of those that one process will make; they get their rule when all of the directory's are known.
function(_stowplan_enqueue target model stem name depends)
  get_property(targets DIRECTORY PROPERTY STOWPLAN_TARGETS)
  if(NOT targets)
    cmake_language(DEFER CALL _stowplan_flush)
    _stowplan_goal(goal rule "${stem}")
    set_property(DIRECTORY PROPERTY STOWPLAN_GOAL "${goal}")
  endif()
  get_property(goal DIRECTORY PROPERTY STOWPLAN_GOAL)
  _stowplan_options(options "${target}" "\n" "\n")
  set(words compile "${model}" -q -o "${stem}.stow" --codegen "${stem}.c" --name "${name}" --depfile "${stem}.d")
  list(JOIN words "\n" words)
  set_property(DIRECTORY APPEND PROPERTY STOWPLAN_TARGETS "${target}")
  set_property(DIRECTORY APPEND PROPERTY STOWPLAN_PRODUCTS "${stem}.stow" "${stem}.c" "${stem}.h")
  set_property(DIRECTORY APPEND PROPERTY STOWPLAN_DEPENDS ${depends})
  set_property(DIRECTORY APPEND_STRING PROPERTY STOWPLAN_COMMANDS
               "${words}\n--depfile-target\n${goal}\n${options}\n")
endfunction()

function(_stowplan_flush)
  foreach(name TARGETS GOAL PRODUCTS DEPENDS COMMANDS)
    get_property(${name} DIRECTORY PROPERTY STOWPLAN_${name})
  endforeach()
  get_filename_component(stem "${GOAL}" DIRECTORY)
  set(file "${stem}/commands.txt")
  file(GENERATE OUTPUT "${file}" CONTENT "${COMMANDS}")
  _stowplan_rule("${TARGETS}" "${GOAL}" "${stem}/commands.d" "${PRODUCTS}" "${DEPENDS};${file}"
                 batch "${file}" --depfile "${stem}/commands.d")
endfunction()
