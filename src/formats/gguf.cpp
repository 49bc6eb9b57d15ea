// Single and split GGUF files. See gguf.h; gguf_parser.cpp reads the header of one file.
#include "formats/gguf.h"

#include <algorithm>
#include <cstring>

#include "formats/gguf_parser.h"

namespace qinfer::formats {
namespace {

constexpr std::int64_t kMaxParts = 99'999;

/// What the keys of one part of a split file say.
struct SplitKeys {
  std::int64_t number = 0, count = 1, tensors = -1;
};

Result<SplitKeys> read_split_keys(const GgufMetadata& metadata) {
  SplitKeys keys;
  QINFER_ASSIGN(const auto number, metadata.integer("split.no", 0, kMaxParts - 1));
  QINFER_ASSIGN(const auto count, metadata.integer("split.count", 0, kMaxParts));
  QINFER_ASSIGN(const auto tensors, metadata.integer("split.tensors.count", 0, kMaxGgufTensors));
  keys.number = number.value_or(0);
  keys.count = std::max<std::int64_t>(count.value_or(1), 1);
  keys.tensors = tensors.value_or(-1);
  if (keys.number >= keys.count)
    return error_at(Code::format, -1, "{}: key \"split.no\" is {}, of {} parts", metadata.file(), keys.number,
                    keys.count);
  return keys;
}

std::string part_suffix(std::int64_t number, std::int64_t count) {
  return format_text("-{:05}-of-{:05}.gguf", number, count);
}

}  // namespace

std::vector<std::uint64_t> GgufTensor::shape() const {
  std::vector<std::uint64_t> out(n_dims);
  for (std::uint32_t i = 0; i < n_dims; ++i) out[i] = dims[n_dims - 1 - i];
  return out;
}

Result<bool> Gguf::is_gguf(const platform::OpenFile& file) {
  char magic[4] = {};
  if (file.size < sizeof(magic)) return false;
  QINFER_TRY(platform::read_at(file, 0, std::as_writable_bytes(std::span(magic))));
  return std::memcmp(magic, "GGUF", 4) == 0;
}

Status Gguf::add_file(platform::OpenFile file, CancelFlag cancel) {
  QINFER_ASSIGN(GgufHeader header, read_gguf_header(file, cancel));
  const auto number = static_cast<std::uint32_t>(files_.size());
  if (number == 0) {
    metadata_ = std::move(header.metadata);
  } else {
    QINFER_ASSIGN(const SplitKeys keys, read_split_keys(header.metadata));
    QINFER_ASSIGN(const SplitKeys first, read_split_keys(metadata_));
    if (keys.number != number || keys.count != first.count)
      return error_at(Code::format, -1, "{}: its keys say that it is part {} of {}, expected part {} of {}", file.name,
                      keys.number + 1, keys.count, number + 1, first.count);
  }
  for (GgufTensor& tensor : header.tensors) {
    if (tensors_.size() == kMaxGgufTensors)
      return error_at(Code::format, -1, "{}: the parts have more than {} tensors", file.name, kMaxGgufTensors);
    tensor.file = number;
    tensors_.push_back(std::move(tensor));
  }
  files_.push_back(std::move(file));
  return Status();
}

Status Gguf::add_parts(const std::string& path, const platform::Files* files, CancelFlag cancel) {
  QINFER_ASSIGN(const SplitKeys keys, read_split_keys(metadata_));
  if (keys.number != 0)
    return error_at(Code::invalid_argument, -1, "{}: part {} of {}: open the first part", path, keys.number + 1,
                    keys.count);
  if (keys.count > 1) {
    const std::string suffix = part_suffix(1, keys.count);
    if (!path.ends_with(suffix))
      return error_at(Code::format, -1, "{}: the first of {} parts, whose name should end with \"{}\"", path,
                      keys.count, suffix);
    const std::string prefix = path.substr(0, path.size() - suffix.size());
    for (std::int64_t i = 2; i <= keys.count; ++i) {
      QINFER_TRY(cancel.check("reading a GGUF file"));
      QINFER_ASSIGN(platform::OpenFile part, platform::open_path(prefix + part_suffix(i, keys.count), files));
      QINFER_TRY(add_file(std::move(part), cancel));
    }
  }
  if (keys.tensors >= 0 && static_cast<std::size_t>(keys.tensors) != tensors_.size())
    return error_at(Code::format, -1, "{}: key \"split.tensors.count\" is {}, the parts have {} tensors", path,
                    keys.tensors, tensors_.size());
  return Status();
}

Status Gguf::index_names() {
  by_name_.resize(tensors_.size());
  for (std::size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = static_cast<std::uint32_t>(i);
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  for (std::size_t i = 1; i < by_name_.size(); ++i)
    if (tensors_[by_name_[i - 1]].name == tensors_[by_name_[i]].name)
      return error_at(Code::format, -1, "{}: tensor \"{}\" is there twice", files_[tensors_[by_name_[i]].file].name,
                      tensors_[by_name_[i]].name);
  return Status();
}

Result<Gguf> Gguf::open(const std::string& path, const platform::Files* files, CancelFlag cancel) {
  Gguf out;
  QINFER_ASSIGN(platform::OpenFile first, platform::open_path(path, files));
  QINFER_TRY(out.add_file(std::move(first), cancel));
  QINFER_TRY(out.add_parts(path, files, cancel));
  QINFER_TRY(out.index_names());
  out.mappings_.resize(out.files_.size());
  return out;
}

const GgufTensor* Gguf::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [this](std::uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

std::uint64_t Gguf::file_bytes() const {
  std::uint64_t sum = 0;
  for (const platform::OpenFile& file : files_) sum += file.size;
  return sum;
}

Result<std::shared_ptr<platform::MappedFile>> Gguf::map(std::size_t file) {
  if (mappings_[file] == nullptr) {
    QINFER_ASSIGN(mappings_[file], platform::MappedFile::map(files_[file]));
  }
  return mappings_[file];
}

Status Gguf::read(const GgufTensor& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  return platform::read_at(files_[tensor.file], tensor.offset + offset, out);
}

}  // namespace qinfer::formats
