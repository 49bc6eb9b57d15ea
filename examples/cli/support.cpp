// support.cpp: see support.h.
#include "support.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace cli {

std::string format(const char* pattern, ...) {
  char text[512];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(text, sizeof text, pattern, args);  // NOLINT(clang-analyzer-valist.Uninitialized): va_start is above
  va_end(args);
  return text;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void report(std::string_view text) {
  std::string line = "qinfer: ";
  for (const char c : text) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  line += '\n';
  std::fflush(stdout);  // so that on a terminal the reason follows the text that led up to it
  std::fwrite(line.data(), 1, line.size(), stderr);
}

namespace {

[[noreturn]] void fail_output() { throw Failure(format("cannot write to standard output: %s", std::strerror(errno))); }

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_output();
}

void print_row(std::string_view label, std::string_view value) {
  constexpr std::size_t kLabelWidth = 18;
  std::string line(label);
  line.resize(std::max(line.size() + 1, kLabelWidth), ' ');
  line += value;
  line += '\n';
  print(line);
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail_output();
}

ProgressBar::ProgressBar(const char* activity) : activity_(activity), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total, const std::string& what) {
  if (!terminal_ || total == 0) return;
  constexpr int kWidth = 32;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int full = static_cast<int>(share * kWidth);
  const std::string bar(static_cast<std::size_t>(full), '#');
  std::fprintf(stderr, "\r%s [%-*s] %3d%% of %s\033[K", activity_, kWidth, bar.c_str(), static_cast<int>(share * 100),
               what.c_str());
  drawn_ = true;
}

qi::Model load_model(qi::Runtime& runtime, const std::string& path, const qinfer_load_options& options) {
  ProgressBar bar("loading");
  return qi::Model::load(runtime, path, options, [&](std::uint64_t done, std::uint64_t total) {
    bar.update(done, total, human_bytes(total));
    return true;
  });
}

void need_template(const qi::Model& model) {
  if (qinfer_model_chat_template_name(model.native(), 0) == nullptr)
    throw Failure("the model has no chat template: give one by --template FILE");
}

std::string read_file(const std::string& path) {
  std::ifstream file(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) throw Failure(format("cannot read %s: %s", path.c_str(), std::strerror(errno)));
  return text;
}

std::string model_name(const qinfer_model_info& info, const std::string& path) {
  return info.name != nullptr && info.name[0] != '\0' ? info.name : path;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return format("%d B", static_cast<int>(bytes));
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < std::size(kUnits); ++unit) value /= 1024.0;
  return format("%.2f %s", value, kUnits[unit]);
}

std::string human_count(std::uint64_t count) {
  const double value = static_cast<double>(count);
  if (value >= 1e9) return format("%.2f G", value / 1e9);
  if (value >= 1e6) return format("%.1f M", value / 1e6);
  if (value >= 1e3) return format("%.1f k", value / 1e3);
  return std::to_string(count);
}

std::string with_commas(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += format("\\u%04x", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::vector<qinfer_token> parse_ids(std::string_view text) {
  std::vector<qinfer_token> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto separator = [](char c) { return c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  while (at != end) {
    if (separator(*at)) {
      ++at;
      continue;
    }
    qinfer_token id = -1;
    const auto [stop, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (stop != end && !separator(*stop))) {
      const char* word_end = at;
      while (word_end != end && !separator(*word_end)) ++word_end;
      throw UsageError("not a token id: " + json_string(std::string_view(at, static_cast<std::size_t>(word_end - at))));
    }
    ids.push_back(id);
    at = stop;
  }
  if (ids.empty()) throw UsageError("no token ids given");
  return ids;
}

std::string join_ids(const std::vector<qinfer_token>& ids) {
  std::string text;
  for (const qinfer_token id : ids) {
    if (!text.empty()) text += ',';
    text += std::to_string(id);
  }
  return text;
}

bool kernels_need(std::string_view kernel_set, std::string_view feature) {
  for (const qinfer_kernel_set_info& info : qi::kernel_sets()) {
    const bool is_meant =
        kernel_set.empty() ? (info.flags & QINFER_KERNELS_DEFAULT) != 0 : kernel_set == std::string_view(info.name);
    if (!is_meant) continue;
    const std::string words = std::string(" ").append(info.cpu_features).append(" ");
    return words.find(std::string(" ").append(feature).append(" ")) != std::string::npos;
  }
  return false;
}

}  // namespace cli
