// log.h: what the server has done, as lines of JSON on stderr, each of one object. A thread of its own writes them, so
// that a stderr which nobody reads stops nothing: only so many bytes wait, lines beyond them are lost, and the next
// line that is written says how many. Contents and keys are in no line, unless contents are asked for.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

namespace server {

enum class LogLevel : unsigned char { off, error, info, debug };

/// For any thread.
class Log {
 public:
  using Fields = nlohmann::ordered_json;  ///< an object

  explicit Log(LogLevel level, int file = 2);
  /// Writes what waits, as far as that is taken within a second.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool writes(LogLevel level) const { return level <= level_; }
  /// {"time", "level", "event", fields...}, if the level is written. Texts that are no UTF-8 are put right.
  void write(LogLevel level, std::string_view event, Fields fields = Fields::object());
  /// For who runs the server: an event "message", or below `info` a line of text.
  void say(const std::string& message);

 private:
  struct Shared;
  void add(std::string line);

  const LogLevel level_;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

/// Of a secret, to be told from others: 8 hexadecimal digits, always the same.
std::string short_hash(std::string_view text);

}  // namespace server
