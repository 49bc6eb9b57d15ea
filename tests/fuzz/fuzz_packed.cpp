// Fuzzes the reader of packed models: what the input changes in the header has a right length and checksum again.
#include "mutated_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qinfer::fuzz;
  static MutatedFiles files;
  files.run(File::packed, {reinterpret_cast<const char*>(data), size});
  return 0;
}
