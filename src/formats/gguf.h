// GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3, little-endian, single or
// split over several files: typed key-values, and tensors with their place and encoding.
//
// Headers are read at opening and checked whole before anything is used: counts and lengths against what is left of the
// file, types against the table, sizes without overflow, offsets against the order that the format demands, names
// against each other. What a hostile file makes the parser allocate is in proportion to the bytes that it has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/encoding.h"
#include "base/status.h"
#include "platform/file.h"

namespace qinfer::formats {

inline constexpr std::uint64_t kMaxGgufKeys = 65'536, kMaxGgufTensors = 1'000'000;
inline constexpr std::uint64_t kMaxGgufString = 16 << 20;

/// The numbers are the format's.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
/// "u32", for messages.
std::string_view gguf_type_name(GgufType type);

/// The number of tensors that are stored so; every encoding has one.
std::uint32_t gguf_tensor_type(Encoding encoding);

/// The first 64 bytes of a text out of a file, which may be no UTF-8, for messages.
std::string printable(std::string_view text);

/// One key-value. Its texts are valid as long as the GgufMetadata that it is of, or what that was moved to.
struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::u8;  ///< of the elements, where it is an array
  bool is_array = false;         ///< of `count` elements; arrays of arrays are refused
  std::uint64_t count = 1;       ///< values
  std::string_view bytes;        ///< as stored: values one after the other, each string after its u64 length
  bool is_text() const { return type == GgufType::string && !is_array; }
  std::string_view text() const { return is_text() ? bytes.substr(8) : std::string_view(); }
  /// "an array of strings", "u32", for messages.
  std::string describe() const;
};

/// The key-values of a file, and typed access to them. A key that is absent gives std::nullopt; a wrong type or a value
/// out of range is QINFER_E_FORMAT, and the message names the file and the key. Every integer type of the format is
/// accepted where a number is asked for, and every float type; a float is not an integer.
class GgufMetadata {
 public:
  std::size_t size() const { return values_.size(); }
  /// In ascending order of the keys.
  const GgufValue& operator[](std::size_t i) const { return values_[i]; }
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// What messages call the file.
  const std::string& file() const { return file_; }

  Result<std::optional<std::int64_t>> integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  Result<std::optional<double>> number(std::string_view key) const;  ///< a float or an integer; may be NaN
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> string(std::string_view key) const;
  /// Elements of an array; where `one_is_a_list`, a single value is a list of one.
  Result<std::optional<std::vector<std::int64_t>>> integers(std::string_view key, std::int64_t min, std::int64_t max,
                                                            bool one_is_a_list = false) const;
  Result<std::optional<std::vector<float>>> floats(std::string_view key) const;
  Result<std::optional<std::vector<bool>>> booleans(std::string_view key) const;
  Result<std::optional<std::vector<std::string_view>>> strings(std::string_view key) const;

 private:
  friend class GgufParser;
  Status wrong_type(const GgufValue& value, std::string_view expected) const;
  std::string file_;
  std::unique_ptr<char[]> bytes_;  ///< the header of the file
  std::vector<GgufValue> values_;
};

/// One tensor. dims are as in the file: the first one is the contiguous axis.
struct GgufTensor {
  std::string name;
  std::uint64_t dims[4] = {1, 1, 1, 1};
  std::uint32_t n_dims = 0;
  Encoding encoding = Encoding::f32;
  std::uint32_t file = 0;    ///< which file of a split one
  std::uint64_t offset = 0;  ///< in that file
  std::uint64_t bytes = 0;
  /// Outermost dimension first.
  std::vector<std::uint64_t> shape() const;
};

/// A file, or all files of a split one.
class Gguf {
 public:
  /// Whether a file begins as GGUF files do.
  static Result<bool> is_gguf(const platform::OpenFile& file);
  /// `path`: the file, or the first of a split one (PREFIX-00001-of-00003.gguf), with the others next to it. `files`
  /// null: the operating system's.
  static Result<Gguf> open(const std::string& path, const platform::Files* files, CancelFlag cancel);

  const GgufMetadata& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  ///< of all files, in their order
  const GgufTensor* find(std::string_view name) const;
  std::size_t n_files() const { return files_.size(); }
  const platform::OpenFile& file(std::size_t i) const { return files_[i]; }
  std::uint64_t file_bytes() const;
  /// Maps a file whole (once; further calls return the same mapping).
  Result<std::shared_ptr<platform::MappedFile>> map(std::size_t file);
  /// Copies out.size() bytes of a tensor, from `offset` on.
  Status read(const GgufTensor& tensor, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  Status add_file(platform::OpenFile file, CancelFlag cancel);
  Status add_parts(const std::string& path, const platform::Files* files, CancelFlag cancel);
  Status index_names();
  GgufMetadata metadata_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  ///< indices into tensors_, in the order of their names
  std::vector<platform::OpenFile> files_;
  std::vector<std::shared_ptr<platform::MappedFile>> mappings_;
};

}  // namespace qinfer::formats
