// Fuzzes a connection of the server: the input decides what its client, its routes and time do.
#include <cstdint>
#include <cstdio>

#include "connection_world.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string wrong = qinfer::fuzz::run_connection({reinterpret_cast<const char*>(data), size});
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  __builtin_trap();
}
