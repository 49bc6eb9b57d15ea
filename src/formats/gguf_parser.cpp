// See gguf_parser.h. The parser walks the bytes once; where they end before the header does but the file goes on, it
// gives up and is called again with more of them.
#include "formats/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace qinfer::formats {
namespace {

constexpr std::uint64_t kFirstRead = 4 << 20, kMaxHeader = 256 << 20;
constexpr std::uint64_t kMaxName = 64, kMaxKey = 65'535;
/// Bytes that a key-value and a tensor take at least.
constexpr std::uint64_t kLeastKeyValue = 13, kLeastTensor = 24;
constexpr std::uint64_t kDefaultAlignment = 32, kMaxAlignment = 1 << 20;

/// Bytes of a value. Strings and arrays have at least one each.
std::uint64_t value_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean: return 1;
    case GgufType::u16:
    case GgufType::i16: return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32: return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return 8;
    case GgufType::string:
    case GgufType::array: break;
  }
  return 1;
}

struct TensorType {
  std::uint32_t number;
  std::string_view name;
  std::optional<Encoding> encoding;  ///< nullopt: known by name, and refused
};
constexpr TensorType kTensorTypes[] = {{0, "F32", Encoding::f32},
                                       {1, "F16", Encoding::f16},
                                       {2, "Q4_0", Encoding::q4_0},
                                       {3, "Q4_1", Encoding::q4_1},
                                       {6, "Q5_0", Encoding::q5_0},
                                       {7, "Q5_1", Encoding::q5_1},
                                       {8, "Q8_0", Encoding::q8_0},
                                       {9, "Q8_1", {}},
                                       {10, "Q2_K", {}},
                                       {11, "Q3_K", Encoding::q3_k},
                                       {12, "Q4_K", Encoding::q4_k},
                                       {13, "Q5_K", Encoding::q5_k},
                                       {14, "Q6_K", Encoding::q6_k},
                                       {15, "Q8_K", {}},
                                       {16, "IQ2_XXS", {}},
                                       {17, "IQ2_XS", {}},
                                       {18, "IQ3_XXS", {}},
                                       {19, "IQ1_S", {}},
                                       {20, "IQ4_NL", Encoding::iq4_nl},
                                       {21, "IQ3_S", {}},
                                       {22, "IQ2_S", {}},
                                       {23, "IQ4_XS", Encoding::iq4_xs},
                                       {24, "I8", {}},
                                       {25, "I16", {}},
                                       {26, "I32", {}},
                                       {27, "I64", {}},
                                       {28, "F64", {}},
                                       {29, "IQ1_M", {}},
                                       {30, "BF16", Encoding::bf16},
                                       {34, "TQ1_0", {}},
                                       {35, "TQ2_0", {}},
                                       {39, "MXFP4", Encoding::mxfp4},
                                       {40, "NVFP4", {}}};
/// Numbers that files still have, with the rows of several matrices interleaved for one kind of CPU.
struct RemovedType {
  std::uint32_t number;
  std::string_view name, instead;
};
constexpr RemovedType kRemovedTypes[] = {
    {4, "Q4_2", "Q4_0"},      {5, "Q4_3", "Q4_1"},          {31, "Q4_0_4_4", "Q4_0"},     {32, "Q4_0_4_8", "Q4_0"},
    {33, "Q4_0_8_8", "Q4_0"}, {36, "IQ4_NL_4_4", "IQ4_NL"}, {37, "IQ4_NL_4_8", "IQ4_NL"}, {38, "IQ4_NL_8_8", "IQ4_NL"}};
/// ik_llama.cpp counts its own types from here on, and repacked ones from 200 or so.
constexpr std::uint32_t kFirstForeign = 97, kLastForeign = 999;
constexpr std::string_view kReadTypes =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4";

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

std::uint32_t gguf_tensor_type(Encoding encoding) {
  for (const TensorType& type : kTensorTypes)
    if (type.encoding == encoding) return type.number;
  return 0;
}

class GgufParser {
 public:
  GgufParser(const char* data, std::uint64_t n, std::uint64_t file_bytes, const std::string& name, CancelFlag cancel)
      : data_(data), size_(n), file_bytes_(file_bytes), name_(name), cancel_(cancel) {}

  /// After an error: whether it was that the bytes in memory end.
  bool needs_more() const { return needs_more_; }

  Status parse() {
    QINFER_TRY(parse_start());
    header_.metadata.file_ = name_;
    for (std::uint64_t i = 0; i < n_keys_; ++i) QINFER_TRY(parse_key_value());
    QINFER_TRY(sort_keys());
    QINFER_TRY(read_alignment());
    for (std::uint64_t i = 0; i < n_tensors_; ++i) QINFER_TRY(parse_tensor());
    return place_tensors();
  }

  GgufHeader take(std::unique_ptr<char[]> bytes) {
    header_.metadata.bytes_ = std::move(bytes);
    return std::move(header_);
  }

 private:
  template <typename... Args>
  Status malformed(fmt::format_string<Args...> format, Args&&... args) const {
    return error_at(Code::format, static_cast<std::int64_t>(at_), "{}: {}", name_,
                    format_text(format, std::forward<Args>(args)...));
  }

  /// Whether n bytes follow. `what` says what they are.
  Status need(std::uint64_t n, std::string_view what) {
    if (n > file_bytes_ - at_)
      return malformed("{}{} at byte {} takes {} bytes, the file has {} more: it is cut or damaged", what, of_key(),
                       at_, n, file_bytes_ - at_);
    if (n <= size_ - at_) return Status();
    if (at_ >= kMaxHeader || n > kMaxHeader - at_)
      return malformed("{}{} at byte {} ends after the first {} bytes, which the header may have", what, of_key(), at_,
                       kMaxHeader);
    needs_more_ = true;
    return Status::fixed(Code::internal, "more of the file is needed");
  }

  /// Of which key the value is that is being read.
  std::string of_key() const { return key_.empty() ? std::string() : format_text(" of key \"{}\"", printable(key_)); }

  template <typename T>
  Status read(T& out, std::string_view what) {
    QINFER_TRY(need(sizeof(T), what));
    std::memcpy(&out, data_ + at_, sizeof(T));
    at_ += sizeof(T);
    return Status();
  }

  Status read_string(std::string_view& out, std::uint64_t max, std::string_view what) {
    std::uint64_t length = 0;
    QINFER_TRY(read(length, what));
    if (length > max) {
      at_ -= 8;
      return malformed("{}{} at byte {} has {} bytes, at most {} are accepted", what, of_key(), at_, length, max);
    }
    QINFER_TRY(need(length, what));
    out = {data_ + at_, length};
    at_ += length;
    return Status();
  }

  Status parse_start() {
    QINFER_TRY(need(24, "the header"));
    std::uint32_t version = 0;
    if (std::memcmp(data_, "GGUF", 4) != 0) return malformed("it does not begin with \"GGUF\"");
    at_ = 4;
    QINFER_TRY(read(version, "the version"));
    if (version != 0 && (version & 0xffff) == 0)
      return error_at(Code::unsupported, 4, "{}: a big-endian GGUF file: convert it on a little-endian machine", name_);
    if (version != 2 && version != 3)
      return error_at(Code::unsupported, 4, "{}: GGUF version {}, supported are 2 and 3", name_, version);
    QINFER_TRY(read(n_tensors_, "the number of tensors"));
    QINFER_TRY(read(n_keys_, "the number of key-values"));
    const std::uint64_t left = file_bytes_ - at_;
    if (n_keys_ > kMaxGgufKeys || n_keys_ > left / kLeastKeyValue)
      return malformed(
          "it says that it has {} key-values, the {} bytes that follow hold at most {}: it is cut or damaged", n_keys_,
          left, std::min(kMaxGgufKeys, left / kLeastKeyValue));
    if (n_tensors_ > kMaxGgufTensors || n_tensors_ > left / kLeastTensor)
      return malformed("it says that it has {} tensors, the {} bytes that follow hold at most {}: it is cut or damaged",
                       n_tensors_, left, std::min(kMaxGgufTensors, left / kLeastTensor));
    return Status();
  }

  Status parse_type(std::string_view key, GgufType& out) {
    std::uint32_t number = 0;
    QINFER_TRY(read(number, "the type of a value"));
    if (number > static_cast<std::uint32_t>(GgufType::f64))
      return malformed("key \"{}\" has the type {}, known are 0 to 12", printable(key), number);
    out = static_cast<GgufType>(number);
    return Status();
  }

  Status parse_key_value() {
    GgufValue value;
    QINFER_TRY(read_string(value.key, kMaxKey, "a key"));
    if (value.key.empty()) return malformed("a key is empty");
    if (!is_printable(value.key)) return malformed("a key holds a byte that is no printable ASCII character");
    key_ = value.key;
    QINFER_TRY(parse_type(value.key, value.type));
    if (value.type == GgufType::array) {
      value.is_array = true;
      QINFER_TRY(parse_type(value.key, value.type));
      if (value.type == GgufType::array)
        return malformed("key \"{}\" is an array of arrays, which is not read", printable(value.key));
      QINFER_TRY(read(value.count, "the length of an array"));
    }
    const std::uint64_t begin = at_;
    QINFER_TRY(value.type == GgufType::string ? skip_strings(value) : skip_numbers(value));
    value.bytes = {data_ + begin, at_ - begin};
    QINFER_TRY(check_booleans(value));
    header_.metadata.values_.push_back(value);
    key_ = {};
    return Status();
  }

  Status skip_strings(const GgufValue& value) {
    if (value.count > (file_bytes_ - at_) / 8)
      return malformed("key \"{}\" says that it has {} strings, {} bytes follow: the file is cut or damaged",
                       printable(value.key), value.count, file_bytes_ - at_);
    std::string_view text;
    for (std::uint64_t i = 0; i < value.count; ++i) {
      if (i % 4096 == 0) QINFER_TRY(cancel_.check("reading a GGUF file"));
      QINFER_TRY(read_string(text, kMaxGgufString, "a string"));
    }
    return Status();
  }

  Status skip_numbers(const GgufValue& value) {
    const std::uint64_t each = value_bytes(value.type);
    if (value.count > (file_bytes_ - at_) / each)
      return malformed("key \"{}\" says that it has {} values of {}, {} bytes follow: the file is cut or damaged",
                       printable(value.key), value.count, gguf_type_name(value.type), file_bytes_ - at_);
    QINFER_TRY(need(value.count * each, "a value"));
    at_ += value.count * each;
    return Status();
  }

  Status check_booleans(const GgufValue& value) const {
    if (value.type != GgufType::boolean) return Status();
    for (const char byte : value.bytes)
      if (byte != 0 && byte != 1)
        return malformed("key \"{}\" holds the boolean {}, expected 0 or 1", printable(value.key),
                         static_cast<int>(byte) & 255);
    return Status();
  }

  Status sort_keys() {
    std::vector<GgufValue>& values = header_.metadata.values_;
    std::sort(values.begin(), values.end(), [](const GgufValue& a, const GgufValue& b) { return a.key < b.key; });
    for (std::size_t i = 1; i < values.size(); ++i)
      if (values[i - 1].key == values[i].key)
        return malformed("the key \"{}\" is there twice", printable(values[i].key));
    return Status();
  }

  Status read_alignment() {
    const GgufValue* value = header_.metadata.find("general.alignment");
    if (value == nullptr) return Status();
    if (value->is_array || value->type != GgufType::u32)
      return malformed("key \"general.alignment\" is {}, expected u32", value->describe());
    std::uint32_t stated = 0;
    std::memcpy(&stated, value->bytes.data(), 4);
    if (!std::has_single_bit(stated) || stated < 8 || stated > kMaxAlignment)
      return malformed("key \"general.alignment\" is {}, expected a power of two from 8 to {}", stated, kMaxAlignment);
    alignment_ = stated;
    return Status();
  }

  Status parse_tensor() {
    if (header_.tensors.size() % 4096 == 0) QINFER_TRY(cancel_.check("reading a GGUF file"));
    GgufTensor tensor;
    std::string_view name;
    QINFER_TRY(read_string(name, kMaxName, "the name of a tensor"));
    if (name.empty() || !is_printable(name))
      return malformed("the name of tensor {} is not of 1 to {} printable ASCII characters", header_.tensors.size(),
                       kMaxName);
    tensor.name = name;
    QINFER_TRY(read(tensor.n_dims, "the number of dimensions"));
    if (tensor.n_dims < 1 || tensor.n_dims > 4)
      return malformed("tensor \"{}\" has {} dimensions, expected 1 to 4", name, tensor.n_dims);
    for (std::uint32_t i = 0; i < tensor.n_dims; ++i) QINFER_TRY(read(tensor.dims[i], "a dimension"));
    std::uint32_t type = 0;
    QINFER_TRY(read(type, "the type of a tensor"));
    QINFER_TRY(read(tensor.offset, "the offset of a tensor"));
    QINFER_TRY(find_type(tensor, type));
    QINFER_TRY(size_tensor(tensor));
    header_.tensors.push_back(std::move(tensor));
    return Status();
  }

  Status find_type(GgufTensor& tensor, std::uint32_t number) const {
    for (const TensorType& type : kTensorTypes) {
      if (type.number != number) continue;
      if (!type.encoding)
        return error_at(Code::unsupported, static_cast<std::int64_t>(at_),
                        "{}: tensor \"{}\" is {}, which is not supported; supported are {}", name_, tensor.name,
                        type.name, kReadTypes);
      tensor.encoding = *type.encoding;
      return Status();
    }
    for (const RemovedType& type : kRemovedTypes) {
      if (type.number != number) continue;
      return error_at(Code::unsupported, static_cast<std::int64_t>(at_),
                      "{}: tensor \"{}\" is {}, which llama.cpp removed: take the same model as {}", name_, tensor.name,
                      type.name, type.instead);
    }
    if (number >= kFirstForeign && number <= kLastForeign)
      return error_at(Code::unsupported, static_cast<std::int64_t>(at_),
                      "{}: tensor \"{}\" has the type {}, which is one of ik_llama.cpp's own; supported are {}", name_,
                      tensor.name, number, kReadTypes);
    if (number < kFirstForeign)
      return error_at(Code::unsupported, static_cast<std::int64_t>(at_),
                      "{}: tensor \"{}\" has the type {}, which is newer than this library; supported are {}", name_,
                      tensor.name, number, kReadTypes);
    return malformed("tensor \"{}\" has the type {}, which the format does not have", tensor.name, number);
  }

  Status size_tensor(GgufTensor& tensor) const {
    const EncodingTraits& traits = encoding_traits(tensor.encoding);
    std::optional<std::uint64_t> values = 1;
    for (std::uint32_t i = 0; i < tensor.n_dims; ++i) {
      if (tensor.dims[i] == 0) return malformed("tensor \"{}\" has a dimension of 0", tensor.name);
      if (values) values = checked_mul(*values, tensor.dims[i]);
    }
    if (tensor.dims[0] % traits.block_values != 0)
      return malformed("tensor \"{}\" has rows of {} values, blocks of {} have {}", tensor.name, tensor.dims[0],
                       traits.name, traits.block_values);
    if (values) *values /= traits.block_values;
    const auto bytes = values ? checked_mul(*values, traits.block_bytes) : std::nullopt;
    if (!bytes || *bytes > file_bytes_)
      return malformed("tensor \"{}\" takes more bytes than the file's {}", tensor.name, file_bytes_);
    tensor.bytes = *bytes;
    return Status();
  }

  /// Tensors follow one another in the order of their list, each padded to the alignment.
  Status place_tensors() {
    const std::uint64_t data = round_up(at_, alignment_);
    std::uint64_t next = 0;
    for (GgufTensor& tensor : header_.tensors) {
      if (tensor.offset != next)
        return malformed("tensor \"{}\" begins at byte {} of the data, expected {}", tensor.name, tensor.offset, next);
      const std::uint64_t begin = data + next;
      if (begin > file_bytes_ || tensor.bytes > file_bytes_ - begin)
        return malformed("tensor \"{}\" ends at byte {}, the file has {}: it is cut or damaged", tensor.name,
                         begin + tensor.bytes, file_bytes_);
      tensor.offset = begin;
      next = round_up(next + tensor.bytes, alignment_);
    }
    return Status();
  }

  const char* data_;
  std::uint64_t size_, file_bytes_, at_ = 0;
  const std::string& name_;
  CancelFlag cancel_;
  std::string_view key_;  ///< while its value is read
  std::uint64_t n_tensors_ = 0, n_keys_ = 0, alignment_ = kDefaultAlignment;
  bool needs_more_ = false;
  GgufHeader header_;
};

Result<std::optional<GgufHeader>> parse_gguf_header(std::unique_ptr<char[]>& bytes, std::uint64_t n,
                                                    std::uint64_t file_bytes, const std::string& name,
                                                    CancelFlag cancel) {
  GgufParser parser(bytes.get(), n, file_bytes, name, cancel);
  Status status = parser.parse();
  if (parser.needs_more()) return std::optional<GgufHeader>();
  QINFER_TRY(std::move(status));
  return std::optional<GgufHeader>(parser.take(std::move(bytes)));
}

Result<GgufHeader> read_gguf_header(const platform::OpenFile& file, CancelFlag cancel) {
  for (std::uint64_t n = std::min(kFirstRead, file.size);; n = std::min({4 * n, file.size, kMaxHeader})) {
    auto bytes = std::make_unique_for_overwrite<char[]>(n);
    QINFER_TRY(platform::read_at(file, 0, std::as_writable_bytes(std::span(bytes.get(), n))));
    QINFER_ASSIGN(auto header, parse_gguf_header(bytes, n, file.size, file.name, cancel));
    if (header) return std::move(*header);
  }
}

}  // namespace qinfer::formats
