// See safetensors.h. The header is read from parser events into flat tables, not into a tree, and names are compared by
// sorting them: a hostile header of 100 MB takes memory in proportion to its size and n log n time.
#include "formats/safetensors.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/checked.h"
#include "formats/json.h"

namespace qinfer::formats {
namespace {

struct DtypeInfo {
  std::string_view name;
  std::uint32_t bits;  ///< of one element
};

constexpr DtypeInfo kDtypes[] = {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
                                 {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
                                 {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
                                 {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
                                 {"I64", 64},        {"U64", 64}};

/// nullptr for a dtype that the format does not know.
const DtypeInfo* find_dtype(std::string_view name) {
  for (const DtypeInfo& dtype : kDtypes)
    if (dtype.name == name) return &dtype;
  return nullptr;
}

/// depth 1: names of tensors; depth 2: fields of one tensor or the metadata; depth 3: numbers of a shape or range.
class HeaderEvents final : public JsonEvents {
 public:
  bool on_begin(bool is_object) override {
    ++depth_;
    if (depth_ <= 2) return is_object || fail("a tensor must be described by an object");
    if (depth_ == 3 && !is_object && !in_metadata_ && (field_ == "shape" || field_ == "data_offsets")) return true;
    return fail(format_text("\"{}\" of {} holds what the format does not allow", field_, describe()));
  }

  bool on_end(bool) override {
    --depth_;
    if (depth_ == 1 && !in_metadata_) return finish_tensor();
    if (depth_ == 1) in_metadata_ = false;
    return true;
  }

  bool on_key(std::string_view key) override {
    if (depth_ == 1) {
      in_metadata_ = key == "__metadata__";
      if (in_metadata_ && has_metadata_) return fail("the name \"__metadata__\" appears twice");
      has_metadata_ = has_metadata_ || in_metadata_;
      current_ = Tensor();
      current_.name.assign(key);
      seen_ = 0;
      offsets_.clear();
      return true;
    }
    field_.assign(key);
    if (in_metadata_) return true;
    constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};
    for (unsigned i = 0; i < 3; ++i) {
      if (field_ != kFields[i]) continue;
      if ((seen_ & 1u << i) != 0) return fail(format_text("\"{}\" of {} appears twice", field_, describe()));
      seen_ |= 1u << i;
      return true;
    }
    return fail(format_text("{} has the unknown field \"{}\"", describe(), field_));
  }

  bool on_string(std::string_view value) override {
    if (depth_ == 2 && in_metadata_) {
      header.metadata.add(field_, value);
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") return fail(format_text("unexpected text in {}", describe()));
    const DtypeInfo* dtype = find_dtype(value);
    if (dtype == nullptr) return fail(format_text("{} has the unknown dtype \"{}\"", describe(), value));
    current_.dtype = dtype->name;
    return true;
  }

  bool on_integer(std::int64_t value) override {
    if (depth_ != 3) return fail(format_text("unexpected number in {}", describe()));
    if (value < 0) return fail(format_text("\"{}\" of {} holds {}", field_, describe(), value));
    (field_ == "shape" ? current_.shape : offsets_).push_back(static_cast<std::uint64_t>(value));
    return true;
  }

  bool on_other(const JsonScalar&) override { return fail(format_text("unexpected value in {}", describe())); }

  SafetensorsHeader header;
  std::string failure;

 private:
  std::string describe() const {
    return current_.name.empty() ? "the header" : format_text("tensor \"{}\"", current_.name);
  }

  bool fail(std::string message) {
    failure = std::move(message);
    return false;
  }

  bool finish_tensor() {
    if (current_.dtype.empty() || (seen_ & kShape) == 0 || offsets_.size() != 2)
      return fail(format_text("{} needs \"dtype\", \"shape\" and two \"data_offsets\"", describe()));
    current_.begin = offsets_[0];
    current_.end = offsets_[1];
    header.tensors.push_back(std::move(current_));
    current_ = Tensor();
    return true;
  }

  static constexpr unsigned kShape = 2;  // its bit in seen_
  int depth_ = 0;
  bool in_metadata_ = false, has_metadata_ = false;
  std::string field_;
  Tensor current_;
  unsigned seen_ = 0;  // a bit for each field of the tensor that has been read
  std::vector<std::uint64_t> offsets_;
};

/// A name that two tensors have, if there is one.
const std::string* find_duplicate(const std::vector<Tensor>& tensors) {
  std::vector<std::uint32_t> order(tensors.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (tensors[order[i - 1]].name == tensors[order[i]].name) return &tensors[order[i]].name;
  return nullptr;
}

Status check_size(const Tensor& tensor, std::string_view file) {
  std::optional<std::uint64_t> total = find_dtype(tensor.dtype)->bits;
  for (const std::uint64_t extent : tensor.shape) {
    if (total) total = checked_mul(*total, extent);
  }
  if (!total) return error_at(Code::format, -1, "{}: the shape of tensor \"{}\" overflows 64 bits", file, tensor.name);
  if (*total % 8 != 0)
    return error_at(Code::format, -1, "{}: tensor \"{}\" does not fill whole bytes", file, tensor.name);
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != *total / 8)
    return error_at(Code::format, static_cast<std::int64_t>(tensor.begin),
                    "{}: tensor \"{}\" spans bytes {} to {}, its shape needs {} bytes", file, tensor.name, tensor.begin,
                    tensor.end, *total / 8);
  return Status();
}

}  // namespace

Result<std::uint64_t> safetensors_header_bytes(std::string_view first8, std::uint64_t file_bytes,
                                               std::string_view name) {
  constexpr std::string_view kPointer = "version ";  // of a file that git-lfs has not fetched yet
  if (first8.starts_with(kPointer))
    return error_at(Code::format, 0,
                    "{}: a pointer to a git-LFS object, not the file itself: fetch it with git lfs pull", name);
  if (first8.size() < 8 || file_bytes < 8)
    return error_at(Code::format, 0, "{}: {} bytes are too few for a safetensors header", name, file_bytes);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(first8[static_cast<std::size_t>(i)]);
  if (length > kMaxSafetensorsHeader)
    return error_at(Code::format, 0, "{}: the header claims {} bytes, at most {} are accepted", name, length,
                    kMaxSafetensorsHeader);
  if (length > file_bytes - 8)
    return error_at(Code::format, 0, "{}: the header claims {} bytes, but only {} follow: the file is cut or damaged",
                    name, length, file_bytes - 8);
  return length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view prefix, std::uint64_t file_bytes,
                                                   std::string_view name, CancelFlag cancel) {
  QINFER_ASSIGN(const std::uint64_t length, safetensors_header_bytes(prefix.substr(0, 8), file_bytes, name));
  if (prefix.size() - 8 < length) return error(Code::internal, "{}: the header was not read whole", name);
  const std::string_view json = prefix.substr(8, length);
  // White space before it is accepted, as by the reference implementation; a byte order mark is not.
  if (const auto first = json.find_first_not_of(" \t\r\n"); first == json.npos || json[first] != '{')
    return error_at(Code::format, 8, "{}: the header is not a JSON object", name);
  HeaderEvents events;
  QINFER_TRY(parse_json_events(json, name, events, cancel));
  if (!events.failure.empty()) return error_at(Code::format, -1, "{}: {}", name, events.failure);
  if (const auto twice = events.header.metadata.finish())
    return error_at(Code::format, -1, "{}: metadata key \"{}\" appears twice", name, *twice);

  auto& tensors = events.header.tensors;
  if (tensors.size() > UINT32_MAX) return error_at(Code::format, -1, "{}: {} tensors", name, tensors.size());
  if (const std::string* twice = find_duplicate(tensors))
    return error_at(Code::format, -1, "{}: the name \"{}\" appears twice", name, *twice);
  QINFER_TRY(cancel.check("reading a header"));
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t expected = 0;
  const std::uint64_t data_bytes = file_bytes - 8 - length;
  for (Tensor& tensor : tensors) {
    QINFER_TRY(check_size(tensor, name));
    if (tensor.begin != expected)
      return error_at(
          Code::format, static_cast<std::int64_t>(tensor.begin),
          "{}: tensor \"{}\" begins at byte {} of the data, expected {}: ranges must neither overlap nor leave holes",
          name, tensor.name, tensor.begin, expected);
    expected = tensor.end;
    if (expected > data_bytes)
      return error_at(Code::format, static_cast<std::int64_t>(expected),
                      "{}: tensor \"{}\" ends at byte {} of the data, which has {}: the file is cut or damaged", name,
                      tensor.name, tensor.end, data_bytes);
    tensor.begin += 8 + length;
    tensor.end += 8 + length;
  }
  if (expected != data_bytes)
    return error_at(Code::format, static_cast<std::int64_t>(expected), "{}: {} bytes of data follow the last tensor",
                    name, data_bytes - expected);
  return std::move(events.header);
}

}  // namespace qinfer::formats
