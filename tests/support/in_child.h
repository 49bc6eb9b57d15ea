// Tests in a child process of their own, forked before there is any runtime, which may change its limits and privileges
// and leave the test program as it is.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#include "support/c_api.h"

namespace qinfer::test {

/// Runs `body` in a child and returns what it complains of by an exception, or how the child ended; empty if all is
/// well.
inline std::string in_child(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(120);
    std::string text;
    try {
      body();
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
      text = "a REQUIRE failed in the child, see above";
    }
    (void)!write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status))
    text += fmt::format("; the child was ended by {}", strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) != 0)
    text += fmt::format("; the child exited with {}", WEXITSTATUS(status));
  return text;
}

inline void need(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

inline void need_status(const std::string& call, qinfer_status status, const qinfer_error& err, qinfer_status wanted,
                        std::int64_t detail, const std::string& message) {
  if (status == wanted && (wanted == QINFER_OK || (err.detail == detail && std::strstr(err.message, message.c_str()))))
    return;
  throw std::runtime_error(fmt::format("{} gave {} (detail {}, \"{}\"), expected {} (detail {}, \"...{}...\")", call,
                                       qinfer_status_name(status), status == QINFER_OK ? 0 : err.detail,
                                       status == QINFER_OK ? "" : err.message, qinfer_status_name(wanted), detail,
                                       message));
}

/// The process's limit for the time that this lives; the hard limit stays.
class SmallLimit {
 public:
  SmallLimit(int resource, std::uint64_t value) : resource_(resource) {
    getrlimit(kind(), &before_);
    rlimit changed = before_;
    changed.rlim_cur = value;
    need(setrlimit(kind(), &changed) == 0, "setrlimit failed");
  }
  SmallLimit(const SmallLimit&) = delete;
  SmallLimit& operator=(const SmallLimit&) = delete;
  ~SmallLimit() { setrlimit(kind(), &before_); }

 private:
  __rlimit_resource kind() const { return static_cast<__rlimit_resource>(resource_); }
  int resource_;
  rlimit before_ = {};
};

#define REQUIRE_CHILD(...)                               \
  do {                                                   \
    const std::string complaint = in_child(__VA_ARGS__); \
    INFO("the child: " << complaint);                    \
    REQUIRE(complaint.empty());                          \
  } while (0)

}  // namespace qinfer::test
