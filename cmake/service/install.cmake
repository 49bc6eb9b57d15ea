# What `cmake --install` does for the service: the units name the prefix that is installed to, and options that the
# administrator has written stay. Packages are put together in a folder of the build, and name the prefix that was configured.
set(prefix "${CMAKE_INSTALL_PREFIX}")
cmake_path(IS_PREFIX QINFER_PACKAGES "${prefix}" NORMALIZE is_package)
if(is_package)
  set(prefix "${QINFER_PREFIX}")
endif()
set(QINFER_BIN "${prefix}/${QINFER_BINDIR}")
if(prefix STREQUAL "/usr")
  set(QINFER_ETC /etc)
  set(etc /etc)
else()
  set(QINFER_ETC "${prefix}/etc")
  set(etc "${CMAKE_INSTALL_PREFIX}/etc")
endif()

# The plain unit runs one model, the template one for each instance.
set(QINFER_UNIT qinfer-server)
configure_file(${QINFER_SERVICE}/qinfer-server.service.in ${QINFER_MADE}/qinfer-server.service @ONLY)
set(QINFER_UNIT qinfer-server-%i)
configure_file(${QINFER_SERVICE}/qinfer-server.service.in ${QINFER_MADE}/qinfer-server@.service @ONLY)
file(INSTALL ${QINFER_MADE}/qinfer-server.service ${QINFER_MADE}/qinfer-server@.service
     DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
if(NOT EXISTS "$ENV{DESTDIR}${etc}/default/qinfer-server")
  configure_file(${QINFER_SERVICE}/qinfer-server.default.in ${QINFER_MADE}/qinfer-server @ONLY)
  file(INSTALL ${QINFER_MADE}/qinfer-server DESTINATION "${etc}/default")
endif()
