// Writing the container of a GGUF file of version 3 (formats/gguf.h): key-values, the list of tensors and where each
// is. The data of the tensors follows the header in the order of the list, each padded to kGgufAlignment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace qinfer::formats {

inline constexpr std::uint64_t kGgufAlignment = 32;

class GgufWriter {
 public:
  void add_text(std::string_view key, std::string_view value);
  void add_u32(std::string_view key, std::uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_boolean(std::string_view key, bool value);
  void add_booleans(std::string_view key, const std::vector<bool>& values);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const std::int32_t> values);
  void add_u8s(std::string_view key, std::span<const std::byte> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  /// A key-value of another file.
  void add(const GgufValue& value);

  /// dims: the contiguous axis first, at most four.
  void add_tensor(std::string_view name, std::span<const std::uint64_t> dims, Encoding encoding);

  /// All that comes before the data, padded.
  std::string header() const;
  /// Of all data, with its padding.
  std::uint64_t data_bytes() const { return data_bytes_; }

 private:
  void begin(std::string_view key, std::uint32_t type);
  void begin_array(std::string_view key, std::uint32_t type, std::uint64_t count);
  std::string values_, tensors_;
  std::uint64_t n_values_ = 0, n_tensors_ = 0, data_bytes_ = 0;
};

}  // namespace qinfer::formats
