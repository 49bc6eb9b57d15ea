// JsonWriter: JSON written piece by piece, with commas where they belong.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/json.h"

namespace qinfer::formats {

/// Appends to a text. The caller says what is written; that it is one value, well nested, is the caller's doing.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& key(std::string_view name) {
    comma();
    append_json_string(name, out_);
    out_ += ':';
    after_ = false;
    return *this;
  }
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  /// Valid UTF-8.
  void string(std::string_view text) {
    comma();
    append_json_string(text, out_);
  }
  void integer(std::int64_t value) { raw(std::to_string(value)); }
  /// The shortest text that reads back as the value; null for what is not finite.
  void number(double value) {
    if (!std::isfinite(value)) return null();
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    raw({text, static_cast<std::size_t>(end - text)});
  }
  void boolean(bool value) { raw(value ? "true" : "false"); }
  void null() { raw("null"); }
  /// A value that is JSON already.
  void raw(std::string_view json) {
    comma();
    out_ += json;
  }

 private:
  void comma() {
    if (after_) out_ += ',';
    after_ = true;
  }
  void open(char bracket) {
    comma();
    out_ += bracket;
    after_ = false;
  }
  void close(char bracket) {
    out_ += bracket;
    after_ = true;
  }
  std::string& out_;
  bool after_ = false;  ///< a value, so that a comma comes before the next one
};

}  // namespace qinfer::formats
