# libqinfer_grammar: the Rust crate in grammar/, built by cargo as a static library and linked into a shared one that
# shows only the functions of qinfer_grammar.h. Where there is no cargo, or one that is too old, or no crates, everything
# else is built without it, and one sentence says so.
set(QINFER_GRAMMAR_DEFAULT OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(QINFER_GRAMMAR_DEFAULT AUTO)
endif()
set(QINFER_BUILD_GRAMMAR ${QINFER_GRAMMAR_DEFAULT} CACHE STRING
    "Build libqinfer_grammar (structured output): ON, OFF, or AUTO where a new enough cargo and the crates are there")
set_property(CACHE QINFER_BUILD_GRAMMAR PROPERTY STRINGS AUTO ON OFF)

set(QINFER_GRAMMAR_DIR ${PROJECT_SOURCE_DIR}/grammar)
file(STRINGS ${QINFER_GRAMMAR_DIR}/Cargo.toml QINFER_RUST_WANTED REGEX "^rust-version")
string(REGEX MATCH "[0-9.]+" QINFER_RUST_WANTED "${QINFER_RUST_WANTED}")

# Sets `missing` to what is missing, "" if all is there.
function(qinfer_look_for_cargo missing)
  find_program(QINFER_CARGO cargo PATHS $ENV{HOME}/.cargo/bin)
  mark_as_advanced(QINFER_CARGO)
  if(NOT QINFER_CARGO)
    set(${missing} "there is no cargo (Debian: packages rustc-web and cargo-web)" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${QINFER_CARGO} --version OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX MATCH "cargo ([0-9]+[.][0-9]+[.0-9]*)" found "${said}")
  if(NOT found OR CMAKE_MATCH_1 VERSION_LESS QINFER_RUST_WANTED)
    set(${missing} "${QINFER_CARGO} is ${CMAKE_MATCH_1}, and the crates need ${QINFER_RUST_WANTED} (Debian: packages rustc-web and cargo-web)"
        PARENT_SCOPE)
    return()
  endif()
  # Crates are packages: they are fetched here, and the build itself needs no network.
  set(fetch ${QINFER_CARGO} fetch --quiet --locked --manifest-path ${QINFER_GRAMMAR_DIR}/Cargo.toml)
  execute_process(COMMAND ${fetch} --offline RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 0)
    execute_process(COMMAND ${fetch} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said TIMEOUT 120)
  endif()
  if(NOT status EQUAL 0)
    # One line without quotes: a test shows it through a shell.
    string(REGEX REPLACE "[] \n\"'`;$\\[]+" " " said "${said}")
    string(SUBSTRING "${said}" 0 300 said)
    set(${missing} "cargo cannot fetch the crates of grammar/Cargo.lock (${said})" PARENT_SCOPE)
    return()
  endif()
  set(${missing} "" PARENT_SCOPE)
endfunction()

set(QINFER_HAS_GRAMMAR OFF)
if(QINFER_BUILD_GRAMMAR)
  qinfer_look_for_cargo(QINFER_GRAMMAR_MISSING)
  if(NOT QINFER_GRAMMAR_MISSING)
    set(QINFER_HAS_GRAMMAR ON)
  elseif(QINFER_BUILD_GRAMMAR STREQUAL "AUTO")
    message(STATUS "qinfer: libqinfer_grammar (structured output) is not built, because ${QINFER_GRAMMAR_MISSING}")
  else()
    message(FATAL_ERROR "qinfer: QINFER_BUILD_GRAMMAR is ${QINFER_BUILD_GRAMMAR}, but ${QINFER_GRAMMAR_MISSING}")
  endif()
endif()

if(QINFER_HAS_GRAMMAR)
  set(QINFER_GRAMMAR_PROFILE release CACHE STRING "Cargo's profile for libqinfer_grammar; quick compiles in two thirds of the time")
  set_property(CACHE QINFER_GRAMMAR_PROFILE PROPERTY STRINGS release quick)
  # Builds for several packages may share one, named in the environment since some are run by other tools. It is what
  # packages hold, whatever the profile.
  set(QINFER_GRAMMAR_TARGET_DIR ${PROJECT_BINARY_DIR}/cargo)
  set(QINFER_GRAMMAR_USES ${QINFER_GRAMMAR_PROFILE})
  if(DEFINED ENV{QINFER_GRAMMAR_TARGET_DIR})
    set(QINFER_GRAMMAR_TARGET_DIR $ENV{QINFER_GRAMMAR_TARGET_DIR})
    set(QINFER_GRAMMAR_USES release)
  endif()
  set(QINFER_GRAMMAR_ARCHIVE ${QINFER_GRAMMAR_TARGET_DIR}/${QINFER_GRAMMAR_USES}/libqinfer_grammar.a)
  file(GLOB_RECURSE QINFER_GRAMMAR_SOURCES CONFIGURE_DEPENDS ${QINFER_GRAMMAR_DIR}/src/*.rs)
  add_custom_command(OUTPUT ${QINFER_GRAMMAR_ARCHIVE}
    COMMAND ${QINFER_CARGO} build --quiet --profile ${QINFER_GRAMMAR_USES} --locked --offline --manifest-path ${QINFER_GRAMMAR_DIR}/Cargo.toml
            --target-dir ${QINFER_GRAMMAR_TARGET_DIR}
    # Cargo leaves a file alone that needs no building, and it would be out of date for ever.
    COMMAND ${CMAKE_COMMAND} -E touch ${QINFER_GRAMMAR_ARCHIVE}
    DEPENDS ${QINFER_GRAMMAR_SOURCES} ${QINFER_GRAMMAR_DIR}/Cargo.toml ${QINFER_GRAMMAR_DIR}/Cargo.lock
    VERBATIM COMMENT "Building the Rust crate of libqinfer_grammar")
  add_custom_target(qinfer_grammar_crate DEPENDS ${QINFER_GRAMMAR_ARCHIVE})
  add_library(qinfer_grammar SHARED ${QINFER_GRAMMAR_DIR}/layout.c)
  add_dependencies(qinfer_grammar qinfer_grammar_crate)
  target_include_directories(qinfer_grammar INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                             PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  # The ABI of the soname: as QINFER_SOVERSION.
  set_target_properties(qinfer_grammar PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0.2 EXPORT_NAME grammar
                        LINK_DEPENDS "${QINFER_GRAMMAR_ARCHIVE};${QINFER_GRAMMAR_DIR}/qinfer_grammar.map")
  target_link_options(qinfer_grammar PRIVATE -Wl,--version-script=${QINFER_GRAMMAR_DIR}/qinfer_grammar.map
                      -Wl,--gc-sections -Wl,--as-needed)
  target_link_libraries(qinfer_grammar PRIVATE -Wl,--whole-archive ${QINFER_GRAMMAR_ARCHIVE} -Wl,--no-whole-archive
                        gcc_s Threads::Threads m ${CMAKE_DL_LIBS})
  add_library(qinfer::grammar ALIAS qinfer_grammar)
endif()
