# Flags shared by all targets of the project: warnings, floating-point rules, visibility, sanitizers; and the text that
# qinfer_build_info() returns.
add_library(qinfer_flags INTERFACE)
target_compile_options(qinfer_flags INTERFACE
  -Wall -Wextra -Wpedantic
  # Not for the tests: Catch2 2 compares values of different signedness in its headers, and shadows in its macros.
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:QINFER_IS_TEST>>>:-Wshadow>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:QINFER_IS_TEST>>>>:-Wconversion>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<BOOL:${QINFER_WERROR}>:-Werror>
  # FMA only where it is written: the same bits from every compiler.
  -ffp-contract=off -fno-math-errno
  -fvisibility=hidden $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>
  $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
set(QINFER_SANITIZED OFF)
if(QINFER_SANITIZE)
  set(QINFER_SANITIZED ON)  # "address,undefined" itself cannot stand inside a generator expression
  target_compile_options(qinfer_flags INTERFACE -fsanitize=${QINFER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(qinfer_flags INTERFACE -fsanitize=${QINFER_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumentation confuses this warning into false positives (GCC bug 105562).
    target_compile_options(qinfer_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(QINFER_BUILD_FUZZERS)
  target_compile_options(qinfer_flags INTERFACE -fsanitize=fuzzer-no-link)  # coverage feedback from the library too
endif()

# The kernel sets that this compiler and processor family allow.
set(QINFER_KERNEL_SETS "")
include(CheckCXXCompilerFlag)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(QINFER_COMPILER_HAS_AVX2 TRUE)
  set(QINFER_KERNEL_SETS "avx2_int16 avx2 ")
  check_cxx_compiler_flag(-mavx512fp16 QINFER_COMPILER_HAS_AVX512)
  if(QINFER_COMPILER_HAS_AVX512)
    string(PREPEND QINFER_KERNEL_SETS "avx512_fp16 avx512_bf16 avx512_int16 avx512 ")
    # Tile instructions are written as assembly, so it is the assembler that must know them.
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_FLAGS -mavx512bf16)
    check_cxx_source_compiles("int main() { asm volatile(\"tdpbf16ps %tmm2, %tmm1, %tmm0\"); }" QINFER_COMPILER_HAS_AMX)
    unset(CMAKE_REQUIRED_FLAGS)
    if(QINFER_COMPILER_HAS_AMX)
      string(APPEND QINFER_KERNEL_SETS "amx amx_int16 ")
    endif()
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(QINFER_COMPILER_HAS_NEON TRUE)
  set(QINFER_KERNEL_SETS "neon ")
endif()
string(APPEND QINFER_KERNEL_SETS "reference")

find_package(Git QUIET)
set(QINFER_COMMIT "unknown commit")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --short HEAD
                  OUTPUT_VARIABLE QINFER_GIT_OUT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE QINFER_GIT_RC)
  if(QINFER_GIT_RC EQUAL 0)
    set(QINFER_COMMIT "${QINFER_GIT_OUT}")
  endif()
endif()
set(QINFER_BUILD_TYPE "${CMAKE_BUILD_TYPE}")
if(NOT QINFER_BUILD_TYPE)
  set(QINFER_BUILD_TYPE "no build type")
endif()
set(QINFER_BUILD_INFO
    "qinfer ${PROJECT_VERSION}, ${QINFER_COMMIT}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${QINFER_BUILD_TYPE}, kernel sets: ${QINFER_KERNEL_SETS}")
