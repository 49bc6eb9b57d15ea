# The shared and the static library, both made of the same objects and both showing only the C ABI. qinfer::qinfer is
# the shared one where it is built, otherwise the static one.

if(QINFER_BUILD_STATIC)
  include(cmake/QinferCombiningLinker.cmake)
  if(NOT QINFER_COMBINING_LINKER OR NOT CMAKE_OBJCOPY)
    string(CONCAT QINFER_WANT "the static library needs objcopy and a linker that knows --force-group-allocation, as GNU "
           "ld does and lld does not (CMAKE_OBJCOPY is ${CMAKE_OBJCOPY}, CMAKE_LINKER is ${CMAKE_LINKER}): install "
           "binutils, or set CMAKE_OBJCOPY and QINFER_COMBINING_LINKER")
    if(NOT QINFER_BUILD_SHARED)
      message(FATAL_ERROR "qinfer: ${QINFER_WANT}; or set QINFER_BUILD_SHARED to have the shared library")
    endif()
    message(WARNING "qinfer: only the shared library is built, because ${QINFER_WANT}")
    set(QINFER_BUILD_STATIC OFF)
  endif()
elseif(NOT QINFER_BUILD_SHARED)
  message(FATAL_ERROR "qinfer: QINFER_BUILD_SHARED and QINFER_BUILD_STATIC are both off, which leaves no library to build")
endif()

# The ABI that programs ask for by the soname. Releases add to it (capi/qinfer.map) and take nothing away, so it is not
# the version: it changes when programs that were built with an older release no longer work.
set(QINFER_SOVERSION 0.2)

if(QINFER_BUILD_SHARED)
  add_library(qinfer SHARED)
  target_link_libraries(qinfer PRIVATE qinfer_objects qinfer_kernels qinfer_flags qinfer_utf8proc Threads::Threads)
  target_include_directories(qinfer INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(qinfer PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${QINFER_SOVERSION}
                        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/capi/qinfer.map LINKER_LANGUAGE CXX)
  target_link_options(qinfer PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/capi/qinfer.map -Wl,--no-undefined-version
                      $<$<NOT:$<BOOL:${QINFER_SANITIZED}>>:-Wl,--no-undefined> -Wl,--as-needed)
  add_library(qinfer::qinfer ALIAS qinfer)
endif()

if(QINFER_BUILD_STATIC)
  # A static archive would expose every C++ symbol of the library to the host's linker, and clash with another copy of,
  # say, fmt in the host. So the objects are linked into one, whose hidden symbols become local.
  set(QINFER_ONE_OBJECT ${PROJECT_BINARY_DIR}/qinfer_combined.o)
  set(QINFER_OBJECT_FILES $<TARGET_OBJECTS:qinfer_src> $<TARGET_OBJECTS:qinfer_capi> ${QINFER_KERNEL_OBJECTS})
  add_custom_command(OUTPUT ${QINFER_ONE_OBJECT}
    COMMAND ${QINFER_COMBINING_LINKER} -r --force-group-allocation -o ${QINFER_ONE_OBJECT} ${QINFER_OBJECT_FILES}
            ${QINFER_UTF8PROC_ARCHIVE}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --keep-global-symbol=qinfer_* ${QINFER_ONE_OBJECT}
    DEPENDS ${QINFER_OBJECT_FILES} COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Linking the objects of the static library into one")
  add_library(qinfer_static STATIC ${QINFER_ONE_OBJECT})
  set_source_files_properties(${QINFER_ONE_OBJECT} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_include_directories(qinfer_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # Plain names: a host needs no package files of these to link.
  target_link_libraries(qinfer_static INTERFACE $<$<NOT:$<BOOL:${QINFER_SELF_CONTAINED}>>:utf8proc> stdc++ m pthread)
  set_target_properties(qinfer_static PROPERTIES OUTPUT_NAME qinfer LINKER_LANGUAGE CXX)
  add_library(qinfer::qinfer_static ALIAS qinfer_static)
endif()
if(NOT QINFER_BUILD_SHARED)
  add_library(qinfer::qinfer ALIAS qinfer_static)
endif()
