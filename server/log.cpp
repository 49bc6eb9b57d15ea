// log.cpp: see log.h.
#include "log.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <deque>
#include <future>
#include <utility>

#include "mutex.h"

namespace server {
namespace {

constexpr std::size_t kMostWaiting = 1 << 20;  ///< bytes

const char* name_of(LogLevel level) {
  return level == LogLevel::error ? "error" : level == LogLevel::info ? "info" : "debug";
}

/// As RFC 3339 has it.
std::string time_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char date[32], text[40];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>(ms));
  return text;
}

/// Waits where it must; false: nothing more can be written.
bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    pollfd ready = {file, POLLOUT, 0};
    if (errno == EAGAIN || errno == EWOULDBLOCK) poll(&ready, 1, -1);
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
  }
  return true;
}

}  // namespace

/// What the thread has, which may be left in a write that does not end.
struct Log::Shared {
  const int file;
  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  std::size_t bytes ABSL_GUARDED_BY(mutex) = 0;
  std::uint64_t n_lost ABSL_GUARDED_BY(mutex) = 0;
  bool ends ABSL_GUARDED_BY(mutex) = false;
  std::promise<void> has_ended;

  explicit Shared(int to) : file(to) {}
  /// The next line; "": there will be none.
  std::string next() {
    const Lock lock(mutex);
    while (lines.empty() && !ends) changed.wait_for(mutex, std::chrono::hours(1));  // see keeper.cpp
    if (lines.empty()) return "";
    std::string line = std::move(lines.front());
    lines.pop_front();
    bytes -= line.size();
    if (n_lost != 0) line.insert(line.size() - 2, ",\"lost\":" + std::to_string(std::exchange(n_lost, 0)));
    return line;
  }
};

Log::Log(LogLevel level, int file) : level_(level), shared_(std::make_shared<Shared>(file)) {
  if (level == LogLevel::off) return;
  thread_ = std::thread([shared = shared_] {
    for (std::string line = shared->next(); !line.empty(); line = shared->next())
      if (!write_all(shared->file, line)) break;
    shared->has_ended.set_value();
  });
}

Log::~Log() {
  if (!thread_.joinable()) return;
  {
    const Lock lock(shared_->mutex);
    shared_->ends = true;
  }
  shared_->changed.notify_one();
  const bool ended = shared_->has_ended.get_future().wait_for(std::chrono::seconds(1)) == std::future_status::ready;
  ended ? thread_.join() : thread_.detach();
}

void Log::write(LogLevel level, std::string_view event, Fields fields) {
  if (!writes(level)) return;
  Fields line = {{"time", time_now()}, {"level", name_of(level)}, {"event", event}};
  for (auto& [name, value] : fields.items()) line[name] = std::move(value);
  add(line.dump(-1, ' ', false, Fields::error_handler_t::replace) + "\n");
}

void Log::say(const std::string& message) {
  if (writes(LogLevel::info)) return write(LogLevel::info, "message", {{"message", message}});
  std::fprintf(stderr, "qinfer-server: %s\n", message.c_str());
}

void Log::add(std::string line) {
  {
    const Lock lock(shared_->mutex);
    if (shared_->bytes + line.size() > kMostWaiting) {
      ++shared_->n_lost;
      return;
    }
    shared_->bytes += line.size();
    shared_->lines.push_back(std::move(line));
  }
  shared_->changed.notify_one();
}

std::string short_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return std::string(digits, 8);
}

}  // namespace server
