// How a test says that it does not run on this machine: one line, "skipped: CPU: no AVX512-FP16", after which ctest
// reports the test as Skipped and `./dev test` counts it. main.cpp sees to it that a test which skips has checked
// nothing before, and that a test which does not skip checks something.
#pragma once

#include <string>
#include <string_view>

namespace qinfer::test {

/// What is missing: the CPU cannot run it, test data is not there (test_data.h), or this machine lacks something else,
/// such as space. .ci/run accepts the first, and the second for data that no registry has.
enum class Missing { cpu, data, machine };

/// Writes the line and remembers it for the exit status. The test returns after it: use the macros.
void skip(Missing missing, std::string_view reason);

}  // namespace qinfer::test

/// At the start of a test case, before its first assertion.
#define SKIP_UNLESS(condition, missing, reason)                         \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::qinfer::test::skip(::qinfer::test::Missing::missing, (reason)); \
      return;                                                           \
    }                                                                   \
  } while (0)
#define SKIP_UNLESS_CPU_HAS(condition, what) SKIP_UNLESS(condition, cpu, "no " what)
