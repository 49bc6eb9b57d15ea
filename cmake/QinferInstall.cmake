# Installation: the header, the libraries that are built, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)

if(QINFER_BUILD_SHARED)
  install(TARGETS qinfer EXPORT qinferTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(QINFER_BUILD_STATIC)
  install(TARGETS qinfer_static EXPORT qinferTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/qinfer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT qinferTargets NAMESPACE qinfer:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qinfer)

configure_package_config_file(cmake/qinferConfig.cmake.in ${PROJECT_BINARY_DIR}/qinferConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qinfer)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qinferConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# Relative to the file itself, so that `cmake --install --prefix` and moved trees work.
file(RELATIVE_PATH QINFER_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(QINFER_PC_LIBS "")
if(NOT QINFER_BUILD_SHARED)  # then nobody has to ask for --static
  set(QINFER_PC_LIBS " \${static_needs}")
endif()
configure_file(cmake/qinfer.pc.in ${PROJECT_BINARY_DIR}/qinfer.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qinferConfig.cmake ${PROJECT_BINARY_DIR}/qinferConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qinfer)
install(FILES ${PROJECT_BINARY_DIR}/qinfer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
