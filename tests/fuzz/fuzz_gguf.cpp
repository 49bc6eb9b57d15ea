// Fuzzes the readers of GGUF files (header, key-values, tokenizer, plan, loading) and of the packed models that are
// made of them; the first byte chooses which.
#include "mutated_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qinfer::fuzz;
  static MutatedFiles files;
  if (size == 0) return 0;
  const File file = data[0] % 8 == 7 ? File::packed_gguf : File::gguf;
  files.run(file, {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
