// Key-values of GGUF files in tests: set, changed and removed one by one, then written as a file without tensors, or as
// the beginning of one (gguf_writer.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qinfer::test {

/// A number, and a text with its length before it, as GGUF files store them.
template <typename T>
std::string gguf_number(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}
inline std::string gguf_text(std::string_view value) {
  return gguf_number(std::uint64_t{value.size()}) + std::string(value);
}

class GgufKeys {
 public:
  enum Type : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

  void set(const std::string& key, std::uint32_t value) { entries_[key] = {u32, number(value)}; }
  void set(const std::string& key, bool value) { entries_[key] = {boolean, std::string(1, value ? '\1' : '\0')}; }
  void set(const std::string& key, const char* value) { entries_[key] = {string, text(value)}; }
  void set(const std::string& key, const std::string& value) { entries_[key] = {string, text(value)}; }
  void set(const std::string& key, const std::vector<std::string>& values) {
    std::string body;
    for (const std::string& value : values) body += text(value);
    set_array(key, string, values.size(), body);
  }
  void set(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string body;
    for (const std::int32_t value : values) body += number(value);
    set_array(key, i32, values.size(), body);
  }
  void set(const std::string& key, const std::vector<float>& values) {
    std::string body;
    for (const float value : values) body += number(value);
    set_array(key, f32, values.size(), body);
  }
  void set(const std::string& key, float value) { entries_[key] = {f32, number(value)}; }
  /// Any type, with the bytes of its value.
  void set_bytes(const std::string& key, std::uint32_t type, const std::string& bytes) {
    entries_[key] = {type, bytes};
  }
  void set_array(const std::string& key, std::uint32_t type, std::size_t count, const std::string& body) {
    entries_[key] = {array, number(type) + number(std::uint64_t{count}) + body};
  }
  void remove(const std::string& key) { entries_.erase(key); }

  std::size_t size() const { return entries_.size(); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : entries_) out.push_back(entry.first);
    return out;
  }
  /// All key-values, one after the other.
  std::string bytes() const {
    std::string out;
    for (const auto& [key, value] : entries_) out += text(key) + number(value.type) + value.bytes;
    return out;
  }
  std::string file() const {
    return "GGUF" + number(std::uint32_t{3}) + number(std::uint64_t{0}) + number(std::uint64_t{entries_.size()}) +
           bytes();
  }

 private:
  struct Value {
    std::uint32_t type;
    std::string bytes;
  };
  template <typename T>
  static std::string number(T value) {
    return gguf_number(value);
  }
  static std::string text(std::string_view value) { return gguf_text(value); }

  std::map<std::string, Value> entries_;
};

}  // namespace qinfer::test
