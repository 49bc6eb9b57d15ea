// Fuzzes a model directory: config.json, the header of a safetensors file, or the index, changed in its structure as
// the input says; the first byte chooses which.
#include "mutated_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qinfer::fuzz;
  static MutatedFiles files;
  if (size == 0) return 0;
  constexpr File kKinds[] = {File::config, File::header, File::index};
  files.run(kKinds[data[0] % 3], {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
