# Finds the linker that makes one object of all objects of the static library. It must know --force-group-allocation,
# which GNU ld does, and lld and gold do not; so it is not always CMAKE_LINKER, which with clang may be lld. Each
# candidate is asked to combine an object of this compiler, which also refuses linkers for other processors.
# Sets QINFER_COMBINING_LINKER, false if there is none.

set(QINFER_PROBE_DIR ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/qinfer_combining_linker)

function(qinfer_compile_probe)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  try_compile(QINFER_PROBE_COMPILED
    SOURCE_FROM_CONTENT probe.cpp "inline int twice(int x) { return 2 * x; }\nint (*keep)(int) = twice;\n"
    COMPILE_DEFINITIONS -fno-lto COPY_FILE ${QINFER_PROBE_DIR}/probe.a)
endfunction()

# Leaves ok as it is, or sets it to FALSE: what find_program wants of a validator.
function(qinfer_refuse_linker_that_cannot_combine ok linker)
  execute_process(COMMAND ${linker} -r --force-group-allocation -o ${QINFER_PROBE_DIR}/combined.o
                          --whole-archive ${QINFER_PROBE_DIR}/probe.a
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed EQUAL 0)
    set(${ok} FALSE PARENT_SCOPE)
  endif()
endfunction()

if(NOT EXISTS ${QINFER_PROBE_DIR}/probe.a)
  qinfer_compile_probe()
endif()
find_program(QINFER_COMBINING_LINKER
  NAMES ${CMAKE_LINKER} ${CMAKE_CXX_COMPILER_TARGET}-ld.bfd ${CMAKE_LIBRARY_ARCHITECTURE}-ld.bfd ld.bfd ld
  DOC "A linker that knows --force-group-allocation (GNU ld), for the static library"
  VALIDATOR qinfer_refuse_linker_that_cannot_combine)
if(QINFER_COMBINING_LINKER)
  set(QINFER_LINKER_COMBINES TRUE)  # find_program does not ask one that the user chose
  qinfer_refuse_linker_that_cannot_combine(QINFER_LINKER_COMBINES ${QINFER_COMBINING_LINKER})
  if(NOT QINFER_LINKER_COMBINES)
    set(QINFER_COMBINING_LINKER QINFER_COMBINING_LINKER-NOTFOUND)
  endif()
endif()
