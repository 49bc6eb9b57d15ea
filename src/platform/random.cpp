// See random.h.
#include "platform/random.h"

#include <sys/random.h>

#include <cerrno>

#include "platform/error_text.h"

namespace qinfer::platform {

Status fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(errno, "random bytes");
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return Status();
}

}  // namespace qinfer::platform
