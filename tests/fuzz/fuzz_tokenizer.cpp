// Fuzzes tokenizer.json: kinds of parts, patterns, flags of added tokens, changed in their structure as the input says;
// then a text that is taken from the input too.
#include "mutated_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qinfer::fuzz;
  static MutatedFiles files;
  files.run(File::tokenizer, {reinterpret_cast<const char*>(data), size});
  return 0;
}
