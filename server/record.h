// record.h: one request with its answer, for the log. On the thread of the connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace server {

/// What was drawn for it, so far.
struct Usage {
  std::uint32_t prompt = 0, cached = 0, completion = 0;  ///< tokens
  const char* finish = nullptr;                          ///< of the choice that has ended last
  double queue_s = -1, first_token_s = -1;  ///< until the first choice begins, and has a token; < 0: not yet
};

/// Bytes of a request and of an answer, each, that a log has where it has contents.
inline constexpr std::size_t kMostContents = 64 << 10;

struct Record {
  std::string id, method, path, key;  ///< key: its short_hash(), or ""
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  int status = 0;  ///< 0: the client has left before
  bool is_stream = false, has_left = false;
  bool is_drawn = false;  ///< it has `usage`
  Usage usage;
  bool has_contents = false;    ///< they are wanted
  std::string request, answer;  ///< their beginnings then
};

class Log;
/// A line, unless its level is not written.
void log_answered(Log& log, const Record& record);

}  // namespace server
