# What the Python package (bindings/python) has beside its own files: the libraries under the names that they are loaded
# by, and the command line and the server, which find them there.
install(FILES $<TARGET_FILE:qinfer> DESTINATION . RENAME libqinfer.so.${QINFER_SOVERSION} COMPONENT python)
if(QINFER_HAS_GRAMMAR)
  install(FILES $<TARGET_FILE:qinfer_grammar> DESTINATION . RENAME libqinfer_grammar.so.0.2 COMPONENT python)
endif()
# Notices of what is compiled in.
install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian-copyright DESTINATION . RENAME copyright COMPONENT python)
foreach(program qinfer_cli qinfer_server)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${program} RUNTIME DESTINATION . COMPONENT python)
  endif()
endforeach()
