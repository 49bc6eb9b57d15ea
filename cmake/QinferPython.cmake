# What the Python package (bindings/python) has beside its own files: the libraries under the names that they are loaded
# by, and the command line, which finds them there.
install(FILES $<TARGET_FILE:qinfer> DESTINATION . RENAME libqinfer.so.${QINFER_SOVERSION} COMPONENT python)
if(QINFER_HAS_GRAMMAR)
  install(FILES $<TARGET_FILE:qinfer_grammar> DESTINATION . RENAME libqinfer_grammar.so.0.2 COMPONENT python)
endif()
# Notices of what is compiled in.
install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian-copyright DESTINATION . RENAME copyright COMPONENT python)
if(TARGET qinfer_cli)
  set_target_properties(qinfer_cli PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS qinfer_cli RUNTIME DESTINATION . COMPONENT python)
endif()
