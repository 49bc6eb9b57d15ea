// heap_faults: stands in for malloc and its kin of the whole process and lets them fail while the library works: once
// at the n-th request of a call, and at all from the n-th on, for every n. Each call must say QINFER_E_NO_MEMORY, or
// succeed because the request did not matter; it may not end the process, and not leak a byte.
//
//   heap_faults MODEL_DIR [STRIDE]     one of STRIDE requests; without it, each
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "held.h"
#include "sweep.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> requests{0}, fail_at{0}, live{0}, mapped{0};
std::atomic<bool> fail_on{false};  ///< at all requests from fail_at on

bool refused() {
  if (!counting) return false;
  const long n = ++requests;
  const long at = fail_at;
  return at != 0 && (n == at || (fail_on && n > at));
}

void* counted(void* block) {
  if (block != nullptr) live += static_cast<long>(malloc_usable_size(block));
  return block;
}

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t n, size_t size);
void* __libc_realloc(void* p, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* p);

void* malloc(size_t size) { return refused() ? no_memory() : counted(__libc_malloc(size)); }
void* calloc(size_t n, size_t size) { return refused() ? no_memory() : counted(__libc_calloc(n, size)); }
void* realloc(void* p, size_t size) {
  if (refused()) return no_memory();
  const long before = p != nullptr ? static_cast<long>(malloc_usable_size(p)) : 0;
  void* block = __libc_realloc(p, size);
  if (block != nullptr || size == 0) live -= before;
  return counted(block);
}
void* memalign(size_t alignment, size_t size) {
  return refused() ? no_memory() : counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* block = memalign(alignment, size);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}
void free(void* p) {
  if (p != nullptr) live -= static_cast<long>(malloc_usable_size(p));
  __libc_free(p);
}
void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  void* data = reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, file, offset));
  if (data != MAP_FAILED && (flags & MAP_FIXED) == 0) mapped += static_cast<long>((size + 4095) / 4096 * 4096);
  return data;
}
int munmap(void* address, size_t size) {
  const auto result = static_cast<int>(syscall(SYS_munmap, address, size));
  if (result == 0) mapped -= static_cast<long>((size + 4095) / 4096 * 4096);
  return result;
}
}

namespace qinfer::faults {

long heap_bytes() { return live; }
long block_bytes(const void* block) { return static_cast<long>(malloc_usable_size(const_cast<void*>(block))); }
long mapped_bytes() { return mapped; }

void faults_begin() {
  requests = 0;
  counting = true;
}

void faults_end() {
  counting = false;
  fail_at = 0;
}

namespace {

class HeapInjector final : public Injector {
 public:
  void count() override { fail_at = 0; }
  /// Two of each request: once, and from there on.
  std::size_t cases(long stride) override {
    n_requests_ = requests;
    stride_ = n_requests_ <= kFew ? 1 : stride;
    return static_cast<std::size_t>((n_requests_ + stride_ - 1) / stride_) * 2;
  }
  void arm(std::size_t index) override {
    fail_at = at(index);
    fail_on = index % 2 == 1;
  }
  std::string describe(std::size_t index) const override {
    return std::string("heap failing ") + (index % 2 == 1 ? "from request " : "once at request ") +
           std::to_string(at(index)) + (index % 2 == 1 ? " on" : "");
  }
  std::string counted() const override { return std::to_string(n_requests_) + " requests"; }
  std::string judge(qinfer_status status, const qinfer_error& err) const override {
    if (status == QINFER_OK) return {};
    if (status != QINFER_E_NO_MEMORY)
      return std::string(qinfer_status_name(status)) + " (" + err.message + "), expected QINFER_E_NO_MEMORY; ";
    return err.code == status && std::strlen(err.message) != 0 ? "" : "no message; ";
  }

 private:
  long at(std::size_t index) const { return 1 + static_cast<long>(index / 2) * stride_; }
  static constexpr long kFew = 100;  ///< no need to leave any out
  long n_requests_ = 0, stride_ = 1;
};

}  // namespace
}  // namespace qinfer::faults

int main(int argc, char** argv) {
  qinfer::faults::HeapInjector injector;
  return qinfer::faults::run_program(argc, argv, injector);
}
