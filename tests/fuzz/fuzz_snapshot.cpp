// Fuzzes the reader of snapshots: what the input changes has right checksums again.
#include "mutated_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qinfer::fuzz;
  static MutatedFiles files;
  files.run(File::snapshot, {reinterpret_cast<const char*>(data), size});
  return 0;
}
