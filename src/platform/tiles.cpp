// See tiles.h.
#include "platform/tiles.h"

#include <cerrno>

#include "platform/error_text.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace qinfer::platform {
namespace {

#if defined(__x86_64__)
CpuidResult real_cpuid(unsigned leaf, unsigned subleaf) {
  CpuidResult r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

std::uint64_t real_enabled_state() {
  if ((real_cpuid(1, 0).c >> 27 & 1) == 0) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

Status real_request() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // the number of the state component
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return Status();
  return tile_refusal(errno);
#else
  return tile_refusal(ENOSYS);
#endif
}
#else
CpuidResult real_cpuid(unsigned, unsigned) { return {}; }
std::uint64_t real_enabled_state() { return 0; }
Status real_request() { return tile_refusal(ENOSYS); }
#endif

/// What Linux means by an errno of ARCH_REQ_XCOMP_PERM.
const char* cause_of(int code) {
  switch (code) {
    case ENOSPC:
    case ENOMEM: return "a thread has an alternate signal stack (sigaltstack) below sysconf(_SC_MINSIGSTKSZ) bytes";
    case EPERM:
    case EACCES: return "something like a seccomp filter forbids it";
    case EINVAL:
    case ENOSYS:
    case EOPNOTSUPP: return "the kernel is older than Linux 5.16, or has no tiles to give";
    default: return "for a reason that is not known";
  }
}

constexpr TileSystem kSystem{real_cpuid, real_enabled_state, real_request};

}  // namespace

const TileSystem& tile_system() { return kSystem; }

Status tile_refusal(int code) {
  return error_at(Code::unsupported, code, "the system refused the use of AMX tiles (arch_prctl: {}): {}",
                  errno_text(code), cause_of(code));
}

bool has_tiles(const TileSystem& system) {
  constexpr std::uint64_t kTileState = 0x60000;  // configuration and data
  if (system.cpuid(0, 0).a < 0x1e) return false;
  const unsigned features = system.cpuid(7, 0).d;
  if ((features >> 24 & 1) == 0 || (features >> 22 & 1) == 0) return false;
  if ((system.enabled_state() & kTileState) != kTileState) return false;
  if (system.cpuid(0x1d, 0).a < 1) return false;  // the largest palette
  const CpuidResult palette = system.cpuid(0x1d, 1), multiplier = system.cpuid(0x1e, 0);
  const unsigned bytes_per_row = palette.b & 0xffff, tiles = palette.b >> 16, rows = palette.c & 0xffff;
  const unsigned most_k = multiplier.b & 0xff, most_n = multiplier.b >> 8 & 0xffff;
  return bytes_per_row >= 64 && tiles >= 8 && rows >= 16 && most_k >= 16 && most_n >= 64;
}

}  // namespace qinfer::platform
