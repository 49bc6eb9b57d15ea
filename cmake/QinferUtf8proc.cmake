# qinfer_utf8proc: what the objects of the library compile and link with. With QINFER_SELF_CONTAINED it is the archive of
# utf8proc, whose symbols stay inside the libraries, so that a host may have another utf8proc of its own.
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
add_library(qinfer_utf8proc INTERFACE)
# Declared as for the archive in either case, so that objects do not depend on what they are linked with.
target_include_directories(qinfer_utf8proc SYSTEM INTERFACE ${UTF8PROC_INCLUDE_DIRS})
target_compile_definitions(qinfer_utf8proc INTERFACE UTF8PROC_STATIC)
if(NOT QINFER_SELF_CONTAINED)
  target_link_libraries(qinfer_utf8proc INTERFACE ${UTF8PROC_LINK_LIBRARIES})
  return()
endif()

find_library(QINFER_UTF8PROC_ARCHIVE libutf8proc.a HINTS ${UTF8PROC_LIBRARY_DIRS} ${UTF8PROC_LIBDIR})
mark_as_advanced(QINFER_UTF8PROC_ARCHIVE)
if(NOT QINFER_UTF8PROC_ARCHIVE)
  message(FATAL_ERROR "qinfer: QINFER_SELF_CONTAINED needs libutf8proc.a, compiled with -fPIC as Debian's "
          "libutf8proc-dev has it (QINFER_UTF8PROC_ARCHIVE)")
endif()
target_link_libraries(qinfer_utf8proc INTERFACE ${QINFER_UTF8PROC_ARCHIVE})
