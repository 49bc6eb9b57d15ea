// Fuzzes the C ABI with sequences of calls; what is checked, and against what, is in api_sequence.h.
#include "api_sequence.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static qinfer::fuzz::ApiSequences sequences;
  sequences.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
