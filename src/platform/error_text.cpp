// See error_text.h.
#include "platform/error_text.h"

#include <cerrno>
#include <cstring>
#include <iterator>

namespace qinfer::platform {
namespace {

/// For C libraries without strerrordesc_np: what calls about files, memory and threads fail with.
constexpr struct {
  int code;
  const char* text;
} kTexts[] = {{EPERM, "Operation not permitted"},
              {ENOENT, "No such file or directory"},
              {EINTR, "Interrupted system call"},
              {EIO, "Input/output error"},
              {EBADF, "Bad file descriptor"},
              {EAGAIN, "Resource temporarily unavailable"},
              {ENOMEM, "Cannot allocate memory"},
              {EACCES, "Permission denied"},
              {EBUSY, "Device or resource busy"},
              {EEXIST, "File exists"},
              {ENOTDIR, "Not a directory"},
              {EISDIR, "Is a directory"},
              {EINVAL, "Invalid argument"},
              {ENFILE, "Too many open files in system"},
              {EMFILE, "Too many open files"},
              {EFBIG, "File too large"},
              {ENOSPC, "No space left on device"},
              {EROFS, "Read-only file system"},
              {ENAMETOOLONG, "File name too long"},
              {ENOSYS, "Function not implemented"},
              {ELOOP, "Too many levels of symbolic links"},
              {EOVERFLOW, "Value too large for defined data type"},
              {EDQUOT, "Disk quota exceeded"},
              {ESTALE, "Stale file handle"},
              {ETIMEDOUT, "Connection timed out"}};

}  // namespace

std::string errno_text(int code) {
  // Not strerror: it speaks the language of the host's locale.
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 32)
  if (const char* text = strerrordesc_np(code)) return text;
#endif
#endif
  for (const auto& known : kTexts)
    if (known.code == code) return known.text;
  return format_text("unknown error {}", code);
}

Status io_error(int code, std::string_view what) {
  const Code kind = code == ENOENT ? Code::not_found : code == ENOMEM ? Code::no_memory : Code::io;
  return error_at(kind, code, "{}: {}", what, errno_text(code));
}

}  // namespace qinfer::platform
