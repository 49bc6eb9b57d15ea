// record.cpp: a record as a line of the log.
#include "record.h"

#include <cmath>
#include <string_view>

#include "log.h"

namespace server {
namespace {

constexpr std::string_view kError = "error";  // Usage::finish of what has failed once it had begun

/// With three digits after the point.
double ms(double seconds) { return std::round(seconds * 1e6) / 1e3; }

Log::Fields or_null(double seconds) { return seconds < 0 ? Log::Fields(nullptr) : Log::Fields(ms(seconds)); }

/// What looks is asked for all the time.
bool is_look(const Record& record) {
  return record.method == "GET" && (record.path == "/health" || record.path == "/ready" || record.path == "/metrics");
}

}  // namespace

void log_answered(Log& log, const Record& record) {
  const bool has_failed = record.status >= 500 || (record.usage.finish != nullptr && record.usage.finish == kError);
  const LogLevel level = has_failed ? LogLevel::error : is_look(record) ? LogLevel::debug : LogLevel::info;
  if (!log.writes(level)) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - record.begun).count();
  Log::Fields line = {{"id", record.id},         {"method", record.method}, {"path", record.path},
                      {"status", record.status}, {"ms", ms(seconds)},       {"stream", record.is_stream},
                      {"left", record.has_left}, {"key", record.key}};
  if (record.key.empty()) line["key"] = nullptr;
  if (record.is_drawn) {
    const Usage& usage = record.usage;
    line["queue_ms"] = or_null(usage.queue_s);
    line["first_token_ms"] = or_null(usage.first_token_s);
    line["prompt_tokens"] = usage.prompt;
    line["cached_tokens"] = usage.cached;
    line["completion_tokens"] = usage.completion;
    line["finish"] = usage.finish == nullptr ? Log::Fields(nullptr) : Log::Fields(usage.finish);
  }
  if (record.has_contents) {
    line["request"] = record.request;
    line["answer"] = record.answer;
  }
  log.write(level, "request", std::move(line));
}

}  // namespace server
