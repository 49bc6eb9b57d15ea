# Packages (cpack): Debian packages of an installed build, each a component of cmake/QinferInstall.cmake, or an archive
# that unpacks anywhere. See ./dev packages.
#
# The library's package is named after the soname, as Debian wants it, so that a library with another ABI can be installed
# beside it.
set(CPACK_PACKAGE_NAME qinfer)
set(CPACK_PACKAGE_VENDOR qinfer)
set(CPACK_PACKAGE_CONTACT "The qinfer authors <qinfer@localhost>" CACHE STRING "Maintainer that packages name")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
if(NOT CPACK_GENERATOR)
  set(CPACK_GENERATOR TGZ)
endif()
string(TOLOWER ${CMAKE_SYSTEM_NAME} QINFER_SYSTEM)
set(CPACK_PACKAGE_FILE_NAME qinfer-${PROJECT_VERSION}-${QINFER_SYSTEM}-${CMAKE_SYSTEM_PROCESSOR})

set(CPACK_COMPONENTS_ALL dev)
foreach(component IN ITEMS library grammar tools server)
  if((component STREQUAL "library" AND QINFER_BUILD_SHARED) OR (component STREQUAL "grammar" AND QINFER_HAS_GRAMMAR) OR
     (component STREQUAL "tools" AND TARGET qinfer_cli) OR (component STREQUAL "server" AND TARGET qinfer_server))
    list(APPEND CPACK_COMPONENTS_ALL ${component})
  endif()
endforeach()

# ---- Debian ----
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1 CACHE STRING "Revision of the Debian packages")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(QINFER_DEB_VERSION ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

# What Debian wants compressed.
function(qinfer_gzip source destination component)
  get_filename_component(name ${source} NAME)
  file(ARCHIVE_CREATE OUTPUT ${PROJECT_BINARY_DIR}/debian/${name}.gz PATHS ${source} FORMAT raw COMPRESSION GZip
       COMPRESSION_LEVEL 9)
  install(FILES ${PROJECT_BINARY_DIR}/debian/${name}.gz DESTINATION ${destination} COMPONENT ${component})
endfunction()

# qinfer_debian_package(COMPONENT NAME SECTION SUMMARY DESCRIPTION [DEPENDS]): DEPENDS beside what the files need.
function(qinfer_debian_package component name section summary description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${ARGN}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  if(section STREQUAL "libs")
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers PARENT_SCOPE)
  endif()
  set(docs ${CMAKE_INSTALL_DATAROOTDIR}/doc/${name})
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian-copyright DESTINATION ${docs} RENAME copyright COMPONENT ${component})
  qinfer_gzip(${PROJECT_BINARY_DIR}/debian/changelog.Debian ${docs} ${component})
endfunction()

if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  string(TIMESTAMP QINFER_DEB_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${PROJECT_BINARY_DIR}/debian/changelog.Debian "qinfer (${QINFER_DEB_VERSION}) unstable; urgency=medium\n\n"
       "  * What is new is in CHANGELOG.md of the sources.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${QINFER_DEB_DATE}\n")
  file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
  set(QINFER_DEB_LIBRARY libqinfer${QINFER_SOVERSION})
  set(QINFER_DEB_NEEDS "")
  if(QINFER_BUILD_SHARED)
    qinfer_debian_package(library ${QINFER_DEB_LIBRARY} libs "library that runs language models on CPUs"
      "Runs Hugging Face checkpoints and GGUF files inside a program, behind a stable\nC interface, with memory planned to the byte and no allocation while generating.")
    list(APPEND QINFER_DEB_NEEDS "${QINFER_DEB_LIBRARY} (= ${QINFER_DEB_VERSION})")
  endif()
  if(QINFER_HAS_GRAMMAR)
    set(QINFER_DEB_GRAMMAR libqinfer-grammar0.2)
    qinfer_debian_package(grammar ${QINFER_DEB_GRAMMAR} libs "structured output for qinfer"
      "JSON schemas, regular expressions and Lark grammars, which what a model writes\nfulfils.")
    list(APPEND QINFER_DEB_NEEDS "${QINFER_DEB_GRAMMAR} (= ${QINFER_DEB_VERSION})")
  endif()
  list(JOIN QINFER_DEB_NEEDS ", " QINFER_DEB_NEEDS)  # the same build, which is what was tried
  qinfer_debian_package(dev libqinfer-dev libdevel "library that runs language models on CPUs (development)"
    "Headers, static library, CMake package and pkg-config files."
    "${QINFER_DEB_NEEDS}, libc6-dev, libutf8proc-dev")
  if(TARGET qinfer_cli)
    qinfer_debian_package(tools qinfer-tools utils "command line of qinfer"
      "Talks with language models, plans their memory, packs, quantises and measures\nthem." ${QINFER_DEB_NEEDS})
    qinfer_gzip(${PROJECT_SOURCE_DIR}/docs/qinfer.1 ${CMAKE_INSTALL_MANDIR}/man1 tools)
    set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS ca-certificates)  # of the hub, for `qinfer pull`
  endif()
  if(TARGET qinfer_server)
    qinfer_debian_package(server qinfer-server net "HTTP server for language models on CPUs"
      "Answers the interfaces of OpenAI and Anthropic for one model, many clients at\nonce, with a chat page. The service is not started before a model is named."
      ${QINFER_DEB_NEEDS})
    set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS qinfer-tools)
    set(scripts ${PROJECT_SOURCE_DIR}/cmake/service/debian)
    set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA ${scripts}/conffiles ${scripts}/postinst ${scripts}/prerm ${scripts}/postrm)
    set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS qinfer-server)
    qinfer_gzip(${PROJECT_SOURCE_DIR}/docs/qinfer-server.1 ${CMAKE_INSTALL_MANDIR}/man1 server)
  endif()
  set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "libstdc++-dev")  # hosts of the static library
endif()
include(CPack)
