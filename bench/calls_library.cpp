// See calls_library.h.
#include "calls_library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>

namespace qinfer::bench {

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
  std::string name = (parent / "qinfer-calls-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("no folder " + name + " could be made: " + std::strerror(errno));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Library::Library(const std::string& path, const std::filesystem::path& folder) : path_(path) {
  int number = 0;
  std::filesystem::path copy;
  do copy = folder / ("library-" + std::to_string(number++) + ".so");
  while (std::filesystem::exists(copy));
  std::filesystem::copy_file(path, copy);
  void* const handle = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(path + ": " + dlerror());
#define QINFER_FIND(name)                                                            \
  call.name = reinterpret_cast<decltype(call.name)>(dlsym(handle, "qinfer_" #name)); \
  if (call.name == nullptr) throw std::runtime_error(path + " has no qinfer_" #name);
  QINFER_CALLS(QINFER_FIND)
#undef QINFER_FIND
}

void Library::expect(qinfer_status status, const qinfer_error& error) const {
  if (status == QINFER_OK) return;
  throw std::runtime_error(path_ + ": " + call.status_name(status) + ": " + error.message);
}

}  // namespace qinfer::bench
