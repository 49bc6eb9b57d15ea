// See checkpoint.h.
#include "formats/checkpoint.h"

#include <fmt/ranges.h>

#include <set>

#include "formats/json.h"

namespace qinfer::formats {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::uint64_t kMaxIndexBytes = 64 << 20;
constexpr std::size_t kMaxShards = 4096;

Result<SafetensorsHeader> read_header(const platform::OpenFile& file) {
  std::string prefix(std::min<std::uint64_t>(8, file.size), '\0');
  QINFER_TRY(platform::read_at(file, 0, std::as_writable_bytes(std::span(prefix))));
  QINFER_ASSIGN(const std::uint64_t length, safetensors_header_bytes(prefix, file.size, file.name));
  prefix.resize(8 + length);
  QINFER_TRY(platform::read_at(file, 8, std::as_writable_bytes(std::span(prefix).subspan(8))));
  return parse_safetensors_header(prefix, file.size, file.name);
}

}  // namespace

std::string shape_text(const std::vector<std::uint64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<DType> parse_dtype(std::string_view name) {
  if (name == "F32") return DType::f32;
  if (name == "F16") return DType::f16;
  if (name == "BF16") return DType::bf16;
  return std::nullopt;
}

Status Checkpoint::add_shard(platform::OpenFile file) {
  QINFER_ASSIGN(SafetensorsHeader header, read_header(file));
  const std::string name = file.name;
  const std::size_t shard = files_.size();
  files_.push_back(std::move(file));
  mappings_.emplace_back();
  for (TensorEntry& entry : header.tensors) {
    if (!by_name_.emplace(entry.name, tensors_.size()).second)
      return error_at(Code::format, -1, "{}: tensor \"{}\" is in another shard too", name, entry.name);
    tensors_.push_back(
        {std::move(entry.name), std::move(entry.dtype), std::move(entry.shape), entry.begin, entry.end, shard});
  }
  metadata_.merge(header.metadata);
  return Status();
}

Status Checkpoint::add_shards(const platform::Directory& directory, std::string_view index_text) {
  QINFER_ASSIGN(const Json index, parse_json(index_text, kIndexFile));
  const Json* map = find_field(index, "weight_map");
  if (map == nullptr || !map->is_object() || map->empty())
    return error_at(Code::format, -1, "{}: \"weight_map\" must be an object that names a file for each tensor",
                    kIndexFile);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string())
      return error_at(Code::format, -1, "{}: the file of tensor \"{}\" must be a string", kIndexFile, tensor);
    names.insert(file.get<std::string>());
  }
  if (names.size() > kMaxShards)
    return error_at(Code::format, -1, "{}: {} shards, at most {} are accepted", kIndexFile, names.size(), kMaxShards);
  for (const std::string& name : names) {
    auto file = directory.open_file(name);
    Status status = file.ok() ? add_shard(std::move(file.value())) : file.take_status();
    if (!status.ok()) return std::move(status).with_prefix(kIndexFile);
  }
  for (const auto& [tensor, file] : map->items()) {
    const Tensor* found = find(tensor);
    if (found == nullptr || files_[found->shard].name != file.get<std::string>())
      return error_at(Code::format, -1, "{}: tensor \"{}\" is not in {}", kIndexFile, tensor, file.get<std::string>());
  }
  if (map->size() != tensors_.size()) {
    for (const Tensor& tensor : tensors_)
      if (!map->contains(tensor.name))
        return error_at(Code::format, -1, "{}: tensor \"{}\" of {} is missing from \"weight_map\"", kIndexFile,
                        tensor.name, files_[tensor.shard].name);
  }
  return Status();
}

Result<Checkpoint> Checkpoint::open(const platform::Directory& directory) {
  Checkpoint checkpoint;
  auto file = directory.open_file(kSingleFile);
  Status single = file.ok() ? checkpoint.add_shard(std::move(file.value())) : file.take_status();
  if (single.ok()) return checkpoint;
  if (single.code() != Code::not_found) return single;
  auto index = directory.read_text(kIndexFile, kMaxIndexBytes);
  if (!index.ok()) {
    Status status = index.take_status();
    if (status.code() != Code::not_found) return status;
    return error(Code::not_found, "{}: neither {} nor {} is there", directory.path(), kSingleFile, kIndexFile);
  }
  QINFER_TRY(checkpoint.add_shards(directory, index.value()));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_file(const std::string& path) {
  Checkpoint checkpoint;
  QINFER_ASSIGN(platform::OpenFile file, platform::open_path(path));
  QINFER_TRY(checkpoint.add_shard(std::move(file)));
  return checkpoint;
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

std::uint64_t Checkpoint::file_bytes() const {
  std::uint64_t total = 0;
  for (const auto& file : files_) total += file.size;
  return total;
}

Result<std::shared_ptr<platform::MappedFile>> Checkpoint::map_shard(std::size_t shard) {
  if (mappings_[shard] == nullptr) {
    QINFER_ASSIGN(mappings_[shard], platform::MappedFile::map(files_[shard]));
  }
  return mappings_[shard];
}

Status Checkpoint::read(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  return platform::read_at(files_[tensor.shard], tensor.begin + offset, out);
}

}  // namespace qinfer::formats
