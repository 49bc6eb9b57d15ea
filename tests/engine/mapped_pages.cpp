// Weights that stay in a mapped file are asked for on 2 MiB pages, and on small ones where the host wants those.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/memory.h"
#include "support/c_api.h"
#include "support/skip.h"
#include "support/smaps.h"

using namespace qinfer::test;

namespace {

/// The flags of all mappings of a file, two letters each: "hg" where 2 MiB pages were asked for, "nh" where none are
/// to be used.
std::string flags_of(const std::string& file) {
  std::string flags;
  for (const std::string& value : smaps_of(file, "VmFlags")) flags += value;
  return flags;
}

/// Whether the system has such pages and tells of them: emulators and some kernels do not.
bool system_tells() {
  const std::string name = "/dev/zero";
  const int fd = open(name.c_str(), O_RDONLY);
  const std::uint64_t bytes = qinfer::platform::page_bytes();
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (data == MAP_FAILED) return false;
  const bool told = madvise(data, bytes, MADV_HUGEPAGE) == 0 && flags_of(name).find("hg") != std::string::npos;
  munmap(data, bytes);
  return told;
}

Model load_with(std::uint32_t runtime_flags, const std::string& path, Runtime& runtime) {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = 1, options.flags = runtime_flags;
  qinfer_runtime* created = nullptr;
  REQUIRE_OK(qinfer_runtime_create(&options, &created, &err));
  runtime = Runtime(created);
  return load_model(runtime, path);
}

}  // namespace

TEST_CASE("mapped weights are asked for on 2 MiB pages", "[packed]") {
  SKIP_UNLESS(system_tells(), machine, "the system says nothing of 2 MiB pages");
  const ModelDir dir{TinySpec()};
  const std::string file = dir.file("model.packed");
  Runtime runtime;
  {
    const Model model = load_with(0, dir.path(), runtime);
    REQUIRE_OK(qinfer_model_pack(runtime.get(), dir.path().c_str(), nullptr, file.c_str(), &err));
  }
  {
    const Model model = load_with(0, file, runtime);
    CHECK(flags_of(file).find("hg") != std::string::npos);
    CHECK(flags_of(file).find("nh") == std::string::npos);
  }
  const Model model = load_with(QINFER_RUNTIME_NORMAL_PAGES, file, runtime);
  CHECK(flags_of(file).find("nh") != std::string::npos);
  CHECK(flags_of(file).find("hg") == std::string::npos);
}
