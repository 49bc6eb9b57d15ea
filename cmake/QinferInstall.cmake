# Installation: the header, the libraries that are built, the CMake package and the pkg-config file, the command line
# tool and the server if they are built, and what one should read. The components are those of the packages: library,
# grammar, dev, tools, server.
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
        PATTERN qinfer_grammar.* EXCLUDE)
if(QINFER_HAS_GRAMMAR)
  install(TARGETS qinfer_grammar EXPORT qinferTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT grammar NAMELINK_COMPONENT dev)
  install(FILES ${PROJECT_SOURCE_DIR}/include/qinfer/qinfer_grammar.h ${PROJECT_SOURCE_DIR}/include/qinfer/qinfer_grammar.hpp
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qinfer)
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

# qinfer_install_program(TARGET PAGE COMPONENT)
function(qinfer_install_program target page component)
  # Relative, so that it finds its library in a moved tree too; CMAKE_SKIP_INSTALL_RPATH is for those who want none.
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(${target} PROPERTIES INSTALL_RPATH $ORIGIN/${bin_to_lib})
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # there QinferPackages.cmake has it compressed
    install(FILES ${PROJECT_SOURCE_DIR}/docs/${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
  endif()
endfunction()
if(TARGET qinfer_cli)
  qinfer_install_program(qinfer_cli qinfer.1 tools)
endif()
if(TARGET qinfer_server)
  qinfer_install_program(qinfer_server qinfer-server.1 server)
  # The service: systemd units, and the file of its options.
  install(CODE "
    set(QINFER_SERVICE [[${PROJECT_SOURCE_DIR}/cmake/service]])
    set(QINFER_MADE [[${PROJECT_BINARY_DIR}/service]])
    set(QINFER_PACKAGES [[${PROJECT_BINARY_DIR}/packages]])
    set(QINFER_PREFIX [[${CMAKE_INSTALL_PREFIX}]])
    set(QINFER_BINDIR [[${CMAKE_INSTALL_BINDIR}]])
    include(\${QINFER_SERVICE}/install.cmake)" COMPONENT server)
endif()
set(QINFER_DOCS ${CMAKE_INSTALL_DATAROOTDIR}/doc/qinfer)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${QINFER_DOCS})
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # there each package has it
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian-copyright DESTINATION ${QINFER_DOCS} RENAME copyright)
endif()
