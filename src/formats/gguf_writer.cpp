// See gguf_writer.h.
#include "formats/gguf_writer.h"

#include <bit>

#include "base/checked.h"

namespace qinfer::formats {
namespace {

void put_u32(std::uint32_t value, std::string& out) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> 8 * i & 0xff);
}
void put_u64(std::uint64_t value, std::string& out) {
  put_u32(static_cast<std::uint32_t>(value), out);
  put_u32(static_cast<std::uint32_t>(value >> 32), out);
}
void put_text(std::string_view text, std::string& out) {
  put_u64(text.size(), out);
  out += text;
}
std::uint32_t number(GgufType type) { return static_cast<std::uint32_t>(type); }

}  // namespace

void GgufWriter::begin(std::string_view key, std::uint32_t type) {
  ++n_values_;
  put_text(key, values_);
  put_u32(type, values_);
}

void GgufWriter::begin_array(std::string_view key, std::uint32_t type, std::uint64_t count) {
  begin(key, number(GgufType::array));
  put_u32(type, values_);
  put_u64(count, values_);
}

void GgufWriter::add_text(std::string_view key, std::string_view value) {
  begin(key, number(GgufType::string));
  put_text(value, values_);
}

void GgufWriter::add_u32(std::string_view key, std::uint32_t value) {
  begin(key, number(GgufType::u32));
  put_u32(value, values_);
}

void GgufWriter::add_f32(std::string_view key, float value) {
  begin(key, number(GgufType::f32));
  put_u32(std::bit_cast<std::uint32_t>(value), values_);
}

void GgufWriter::add_boolean(std::string_view key, bool value) {
  begin(key, number(GgufType::boolean));
  values_ += value ? '\1' : '\0';
}

void GgufWriter::add_booleans(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, number(GgufType::boolean), values.size());
  for (const bool value : values) values_ += value ? '\1' : '\0';
}

void GgufWriter::add_texts(std::string_view key, std::span<const std::string> values) {
  begin_array(key, number(GgufType::string), values.size());
  for (const std::string& value : values) put_text(value, values_);
}

void GgufWriter::add_i32s(std::string_view key, std::span<const std::int32_t> values) {
  begin_array(key, number(GgufType::i32), values.size());
  for (const std::int32_t value : values) put_u32(static_cast<std::uint32_t>(value), values_);
}

void GgufWriter::add_u8s(std::string_view key, std::span<const std::byte> values) {
  begin_array(key, number(GgufType::u8), values.size());
  values_.append(reinterpret_cast<const char*>(values.data()), values.size());
}

void GgufWriter::add_f32s(std::string_view key, std::span<const float> values) {
  begin_array(key, number(GgufType::f32), values.size());
  for (const float value : values) put_u32(std::bit_cast<std::uint32_t>(value), values_);
}

void GgufWriter::add(const GgufValue& value) {
  if (value.is_array) {
    begin_array(value.key, number(value.type), value.count);
  } else {
    begin(value.key, number(value.type));
  }
  values_ += value.bytes;
}

void GgufWriter::add_tensor(std::string_view name, std::span<const std::uint64_t> dims, Encoding encoding) {
  ++n_tensors_;
  put_text(name, tensors_);
  put_u32(static_cast<std::uint32_t>(dims.size()), tensors_);
  std::uint64_t values = 1;
  for (const std::uint64_t dim : dims) {
    put_u64(dim, tensors_);
    values *= dim;
  }
  put_u32(gguf_tensor_type(encoding), tensors_);
  put_u64(data_bytes_, tensors_);
  data_bytes_ += round_up(encoded_bytes(encoding, values), kGgufAlignment);
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  put_u32(3, out);
  put_u64(n_tensors_, out);
  put_u64(n_values_, out);
  out += values_;
  out += tensors_;
  out.resize(round_up(out.size(), kGgufAlignment), '\0');
  return out;
}

}  // namespace qinfer::formats
