// Fuzzes the safetensors header parser with arbitrary bytes as a whole file: it must accept or refuse, and what it
// accepts must keep the promises that the loader relies on.
#include <cstddef>
#include <cstdint>

#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The first byte chooses between the input as it is and the input with a right length in front, so that the fuzzer
  // does not have to guess eight bytes to get at the JSON.
  if (size == 0) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    const std::size_t header = file.size() - (data[0] / 2 < file.size() ? data[0] / 2 : 0);
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header >> (8 * i) & 0xff);
    file.insert(0, length);
  }
  auto parsed = qinfer::formats::parse_safetensors_header(file, file.size(), "input");
  if (!parsed.ok()) return 0;
  std::uint64_t end = 0;
  for (const auto& tensor : parsed.value().tensors) {
    if (end == 0) end = tensor.begin;
    if (tensor.begin != end || tensor.end < tensor.begin || tensor.end > file.size()) __builtin_trap();
    end = tensor.end;
  }
  if (end != 0 && end != file.size()) __builtin_trap();
  return 0;
}
