// The library on a system with pages of 16 or 64 KiB, which is played here: sysconf says so, mappings begin at
// multiples of that and are whole pages, and what is asked for a part of a page is refused and counted, as such a
// kernel refuses it. page_sizes MODEL PAGE_BYTES
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <qinfer/qinfer.hpp>

namespace {

std::atomic<std::uint64_t> page{4096};
std::atomic<int> mappings{0}, refused{0};

std::uint64_t whole(std::uint64_t bytes) { return (bytes + page - 1) / page * page; }
bool on_page(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % page == 0; }

/// The call, if its address is that of a page; lengths are counted in whole pages.
int call_on_pages(long number, void* address, std::size_t length, int argument) {
  if (!on_page(address)) {
    ++refused;
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(syscall(number, address, whole(length), argument));
}

}  // namespace

extern "C" {
long sysconf(int name) noexcept {
  if (name == _SC_PAGESIZE) return static_cast<long>(page.load());
  static const auto real = reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
  return real(name);
}

void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) noexcept {
  const auto map = [&](void* at, std::size_t bytes, int how, int mapped) {
    return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, how, mapped, mapped < 0 ? 0 : offset));
  };
  if (static_cast<std::uint64_t>(offset) % page != 0 || ((flags & MAP_FIXED) != 0 && !on_page(address))) {
    ++refused;
    errno = EINVAL;
    return MAP_FAILED;
  }
  ++mappings;
  if ((flags & MAP_FIXED) != 0) return map(address, whole(length), flags, file);
  // Address space for one page more, of which what is before and after the mapping is given back.
  const std::size_t bytes = whole(length);
  auto* space = static_cast<std::byte*>(map(nullptr, bytes + page, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1));
  if (space == MAP_FAILED) return space;
  std::byte* begin = space + (page - reinterpret_cast<std::uintptr_t>(space) % page) % page;
  if (begin != space) syscall(SYS_munmap, space, begin - space);
  if (begin != space + page) syscall(SYS_munmap, begin + bytes, space + page - begin);
  return map(begin, bytes, flags | MAP_FIXED, file);
}

int munmap(void* address, std::size_t length) noexcept { return call_on_pages(SYS_munmap, address, length, 0); }
int madvise(void* address, std::size_t length, int advice) noexcept {
  return call_on_pages(SYS_madvise, address, length, advice);
}
int mprotect(void* address, std::size_t length, int protection) noexcept {
  return call_on_pages(SYS_mprotect, address, length, protection);
}
int mincore(void* address, std::size_t length, unsigned char* resident) noexcept {
  const std::size_t small = page / 4096;
  std::vector<unsigned char> pages(whole(length) / 4096);
  if (!on_page(address) || syscall(SYS_mincore, address, whole(length), pages.data()) != 0) {
    if (!on_page(address)) ++refused;
    return -1;
  }
  for (std::size_t i = 0; i < pages.size() / small; ++i) resident[i] = pages[i * small] & 1u;
  return 0;
}
}

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (!good) {
    std::printf("FAILED with pages of %llu bytes: %s\n", static_cast<unsigned long long>(page.load()), what);
    ++failures;
  }
}

constexpr char kStory[] = ", there was a little girl named Lily. She was a very kind girl.";

void tell(const qi::Model& model, const qinfer_kv_cache_options& options, const char* what) {
  qi::KvCache cache(model, options);
  for (int turn = 0; turn < 2; ++turn) {  // the second in blocks that the first gave back
    qi::Session session(cache);
    session.append(model.tokenize("Once upon a time"));
    qi::GenerateOptions request;
    request.max_tokens = 16;
    expect(session.generate_text(request) == kStory, what);
  }
}

void use(const std::string& path) {
  qi::Runtime runtime;
  auto options = qi::options<qinfer_load_options>();
  const qinfer_memory planned = qi::plan(path, nullptr, &options);
  const qi::Model model = qi::Model::load(runtime, path, options);
  const qinfer_memory taken = model.memory();
  expect(taken.weights_mapped == planned.weights_mapped && taken.weights_private == planned.weights_private &&
             taken.tables <= planned.tables && taken.scratch == planned.scratch,
         "the plan is what is taken, tables as far as they are needed");
  auto cache = qi::options<qinfer_kv_cache_options>();
  tell(model, cache, "a story");
  cache.flags = QINFER_CACHE_PREFIX | QINFER_CACHE_COMMIT;
  tell(model, cache, "a story from a committed cache");
  cache.flags = QINFER_CACHE_CONTIGUOUS;
  cache.block_tokens = 256;
  tell(model, cache, "a story from a contiguous cache");
  options.flags = QINFER_LOAD_LOCK;
  try {
    const qi::Model locked = qi::Model::load(runtime, path, options);
    tell(locked, qi::options<qinfer_kv_cache_options>(), "a story from locked memory");
  } catch (const qi::Error& error) {
    expect(error.status() == QINFER_E_NO_MEMORY, "locking is refused for the limit alone");
  }
}

/// A block that is no whole number of pages cannot be mapped, and the message says so.
void refuse_small_blocks(const std::string& path) {
  const qi::Model model = qi::Model::load(path);
  auto options = qi::options<qinfer_kv_cache_options>();
  options.flags = QINFER_CACHE_CONTIGUOUS;
  options.block_tokens = 32;
  try {
    const qi::KvCache cache(model, options);
    expect(cache.stats().block_tokens == 32, "a contiguous cache of small blocks");
  } catch (const qi::Error& error) {
    expect(error.status() == QINFER_E_UNSUPPORTED, "blocks of half a page are unsupported");
    expect(std::string(error.what()).find(std::to_string(page.load())) != std::string::npos,
           "the message has the page");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: page_sizes MODEL PAGE_BYTES\n"), 2;
  page = std::strtoull(argv[2], nullptr, 10);
  const std::string model = argv[1];
  char folder[] = "/tmp/qinfer-pages-XXXXXX";
  if (mkdtemp(folder) == nullptr) return std::perror("mkdtemp"), 2;
  const std::string packed = std::string(folder) + "/packed";
  try {
    use(model);
    qi::Runtime runtime;
    qi::pack(runtime, model, packed);
    use(packed);
    refuse_small_blocks(model);
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  std::filesystem::remove_all(folder);
  expect(mappings > 10, "the library's mappings are seen");
  expect(refused == 0, "no call is for a part of a page");
  std::printf("pages of %s bytes: %d mappings, %d failures\n", argv[2], mappings.load(), failures);
  return failures == 0 ? 0 : 1;
}
