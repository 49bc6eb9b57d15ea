# The shared and the static library, both made of the same objects and both showing only the C ABI.

# The version before 1.0 may break the ABI with each minor number, so that is part of the soname.
set(QINFER_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

add_library(qinfer SHARED)
target_link_libraries(qinfer PRIVATE qinfer_objects qinfer_kernels qinfer_flags PkgConfig::UTF8PROC Threads::Threads)
target_include_directories(qinfer INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(qinfer PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${QINFER_SOVERSION}
                      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/capi/qinfer.map LINKER_LANGUAGE CXX)
target_link_options(qinfer PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/capi/qinfer.map -Wl,--no-undefined-version
                    $<$<NOT:$<BOOL:${QINFER_SANITIZED}>>:-Wl,--no-undefined> -Wl,--as-needed)
add_library(qinfer::qinfer ALIAS qinfer)

# A static archive would expose every C++ symbol of the library to the host's linker, and clash with another copy of,
# say, fmt in the host. So the objects are linked into one, whose hidden symbols become local.
set(QINFER_ONE_OBJECT ${PROJECT_BINARY_DIR}/qinfer_combined.o)
# Precompiled headers count as objects of their target, but are none.
set(QINFER_OBJECT_FILES "$<FILTER:$<TARGET_OBJECTS:qinfer_objects>,EXCLUDE,[.][gp]ch$>" "$<TARGET_OBJECTS:qinfer_kernels>")
add_custom_command(OUTPUT ${QINFER_ONE_OBJECT}
  COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${QINFER_ONE_OBJECT} ${QINFER_OBJECT_FILES}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --keep-global-symbol=qinfer_* ${QINFER_ONE_OBJECT}
  DEPENDS qinfer_objects qinfer_kernels COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Linking the objects of the static library into one")
add_library(qinfer_static STATIC ${QINFER_ONE_OBJECT})
set_source_files_properties(${QINFER_ONE_OBJECT} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
target_include_directories(qinfer_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Plain names: a host needs no package files of these to link.
target_link_libraries(qinfer_static INTERFACE utf8proc stdc++ m pthread)
set_target_properties(qinfer_static PROPERTIES OUTPUT_NAME qinfer LINKER_LANGUAGE CXX)
add_library(qinfer::qinfer_static ALIAS qinfer_static)
