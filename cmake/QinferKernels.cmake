# The kernels: targets of their own, one for each instruction set. Sets for later instruction sets get their flags, and
# must not be compiled with the rest (an inline function compiled for a newer CPU could replace the one of
# an older). The files of kernels/tiled are compiled once for each.
#
# QINFER_KERNEL_TARGETS are all of them, QINFER_KERNEL_OBJECTS their objects.

set(QINFER_KERNEL_TARGETS "")

# qinfer_add_kernels(NAME FLAGS... SOURCES FILES...): the object library qinfer_kernels_NAME.
function(qinfer_add_kernels name)
  cmake_parse_arguments(arg "" "" "FLAGS;SOURCES" ${ARGN})
  set(target qinfer_kernels_${name})
  add_library(${target} OBJECT ${arg_SOURCES})
  # A `default:` would stand for members that an enumeration gets later.
  target_compile_options(${target} PRIVATE ${arg_FLAGS} -Wswitch-enum)
  target_include_directories(${target} PRIVATE src kernels)
  target_link_libraries(${target} PRIVATE qinfer_flags)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  set(QINFER_KERNEL_TARGETS ${QINFER_KERNEL_TARGETS} ${target} PARENT_SCOPE)
endfunction()

file(GLOB sources CONFIGURE_DEPENDS kernels/*.cpp kernels/reference/*.cpp)
qinfer_add_kernels(portable SOURCES ${sources})
file(GLOB tiled CONFIGURE_DEPENDS kernels/tiled/*.cpp)
# Optimised in every build type: intrinsics that are not inlined would be functions that the linker may share.
set(optimised -O3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The intrinsics' own headers set off these warnings (GCC bug 105593).
  list(APPEND optimised -Wno-uninitialized -Wno-maybe-uninitialized)
endif()

# Headers of Highway are all that is used: nothing of it is linked.
find_path(QINFER_HIGHWAY_INCLUDE_DIR hwy/highway.h DOC "Where hwy/highway.h is (Debian: package libhwy-dev)")
if((QINFER_COMPILER_HAS_AVX2 OR QINFER_COMPILER_HAS_NEON) AND NOT QINFER_HIGHWAY_INCLUDE_DIR)
  message(FATAL_ERROR "qinfer needs the headers of Google's Highway (Debian: package libhwy-dev)")
endif()
file(GLOB highway CONFIGURE_DEPENDS kernels/highway/*.cpp)
if(QINFER_COMPILER_HAS_AVX2)
  file(GLOB sources CONFIGURE_DEPENDS kernels/avx2/*.cpp)
  qinfer_add_kernels(avx2 FLAGS ${optimised} -mavx2 -mfma -mf16c -mbmi -mbmi2 SOURCES ${tiled} ${highway} ${sources})
  target_include_directories(qinfer_kernels_avx2 SYSTEM PRIVATE ${QINFER_HIGHWAY_INCLUDE_DIR})
endif()
if(QINFER_COMPILER_HAS_NEON)
  # Highway's functions for NEON ask for the cryptographic instructions, which only functions that nothing here calls
  # use: the kernels run on CPUs without them.
  qinfer_add_kernels(neon FLAGS ${optimised} -march=armv8-a+crypto SOURCES ${tiled} ${highway})
  target_include_directories(qinfer_kernels_neon SYSTEM PRIVATE ${QINFER_HIGHWAY_INCLUDE_DIR})
endif()
if(QINFER_COMPILER_HAS_AVX512)
  file(GLOB sources CONFIGURE_DEPENDS kernels/avx512/*.cpp)
  set(avx512 ${optimised} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c)
  qinfer_add_kernels(avx512 FLAGS ${avx512} SOURCES ${tiled} ${sources})
  set(bf16 kernels/avx512/projections_bf16.cpp kernels/avx512/attention_bf16.cpp kernels/avx512/moe_bf16.cpp
           kernels/avx512/projections_quant_bf16.cpp kernels/avx512/quant_bf16_nibbles.cpp
           kernels/avx512/quant_bf16_planes.cpp)
  set(fp16 kernels/avx512/projections_fp16.cpp kernels/avx512/attention_fp16.cpp kernels/avx512/moe_fp16.cpp)
  set(vnni kernels/avx512/quant_int16_nibbles.cpp kernels/avx512/quant_int16_planes.cpp)
  set_source_files_properties(${fp16} PROPERTIES COMPILE_OPTIONS -mavx512fp16)
  set_source_files_properties(${vnni} PROPERTIES COMPILE_OPTIONS "-mavx512vnni;-fno-exceptions")
  if(QINFER_COMPILER_HAS_AMX)
    set_source_files_properties(${vnni} PROPERTIES COMPILE_DEFINITIONS QINFER_HAVE_AMX)
  endif()
  set_source_files_properties(${bf16} PROPERTIES COMPILE_OPTIONS -mavx512bf16)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # VectorCombine of clang 16 recurses without end over what gives pairs of bf16.
    set_property(SOURCE ${bf16} APPEND PROPERTY COMPILE_OPTIONS -mllvm -disable-vector-combine)
  endif()
endif()
if(QINFER_COMPILER_HAS_AMX)
  file(GLOB sources CONFIGURE_DEPENDS kernels/amx/*.cpp)
  qinfer_add_kernels(amx FLAGS ${avx512} -mavx512bf16 -fno-exceptions SOURCES ${sources})
endif()

# What the others link: all objects, and which of the sets there are.
add_library(qinfer_kernels_definitions INTERFACE)
set(definitions $<$<BOOL:${QINFER_COMPILER_HAS_AVX2}>:QINFER_HAVE_AVX2>
                $<$<BOOL:${QINFER_COMPILER_HAS_NEON}>:QINFER_HAVE_NEON>
                $<$<BOOL:${QINFER_COMPILER_HAS_AVX512}>:QINFER_HAVE_AVX512>
                $<$<BOOL:${QINFER_COMPILER_HAS_AMX}>:QINFER_HAVE_AMX>)
target_compile_definitions(qinfer_kernels_definitions INTERFACE ${definitions})
target_link_libraries(qinfer_kernels_portable PRIVATE qinfer_kernels_definitions)
add_library(qinfer_kernels INTERFACE)
target_link_libraries(qinfer_kernels INTERFACE qinfer_kernels_definitions)
set(QINFER_KERNEL_OBJECTS "")
foreach(target ${QINFER_KERNEL_TARGETS})
  list(APPEND QINFER_KERNEL_OBJECTS $<TARGET_OBJECTS:${target}>)
endforeach()
target_sources(qinfer_kernels INTERFACE ${QINFER_KERNEL_OBJECTS})
