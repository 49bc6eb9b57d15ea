# Installation: the header, the libraries that are built, the CMake package and the pkg-config file, the command line
# tool if it is built, and what one should read. The components are those of the packages: library, grammar, dev, tools.
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)

if(QINFER_BUILD_SHARED)
  install(TARGETS qinfer EXPORT qinferTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev)
endif()
if(QINFER_BUILD_STATIC)
  install(TARGETS qinfer_static EXPORT qinferTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/qinfer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        PATTERN qinfer_grammar.h EXCLUDE)
if(QINFER_HAS_GRAMMAR)
  install(TARGETS qinfer_grammar EXPORT qinferTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT grammar NAMELINK_COMPONENT dev)
  install(FILES ${PROJECT_SOURCE_DIR}/include/qinfer/qinfer_grammar.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qinfer)
endif()
install(EXPORT qinferTargets NAMESPACE qinfer:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qinfer)

configure_package_config_file(cmake/qinferConfig.cmake.in ${PROJECT_BINARY_DIR}/qinferConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qinfer)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qinferConfigVersion.cmake COMPATIBILITY SameMajorVersion)
# Relative to the file itself, so that `cmake --install --prefix` and moved trees work.
file(RELATIVE_PATH QINFER_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(QINFER_PC_UTF8PROC "")
if(NOT QINFER_SELF_CONTAINED)
  set(QINFER_PC_UTF8PROC "-lutf8proc ")
endif()
set(QINFER_PC_LIBS "")
if(NOT QINFER_BUILD_SHARED)  # then a host need not ask for --static
  set(QINFER_PC_LIBS " \${static_needs}")
endif()
configure_file(cmake/qinfer.pc.in ${PROJECT_BINARY_DIR}/qinfer.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qinferConfig.cmake ${PROJECT_BINARY_DIR}/qinferConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qinfer)
install(FILES ${PROJECT_BINARY_DIR}/qinfer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(QINFER_HAS_GRAMMAR)
  configure_file(cmake/qinfer-grammar.pc.in ${PROJECT_BINARY_DIR}/qinfer-grammar.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/qinfer-grammar.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(TARGET qinfer_cli)
  # Relative, so that it finds its library in a moved tree too; CMAKE_SKIP_INSTALL_RPATH is for those who want none.
  file(RELATIVE_PATH QINFER_BIN_TO_LIB ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(qinfer_cli PROPERTIES INSTALL_RPATH $ORIGIN/${QINFER_BIN_TO_LIB})
  install(TARGETS qinfer_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # there QinferPackages.cmake has it compressed
    install(FILES ${PROJECT_SOURCE_DIR}/docs/qinfer.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  endif()
endif()
set(QINFER_DOCS ${CMAKE_INSTALL_DATAROOTDIR}/doc/qinfer)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${QINFER_DOCS})
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # there each package has it
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian-copyright DESTINATION ${QINFER_DOCS} RENAME copyright)
endif()
