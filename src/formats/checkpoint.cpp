// See checkpoint.h.
#include "formats/checkpoint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "formats/json.h"

namespace qinfer::formats {
namespace {

constexpr std::uint64_t kMaxIndexBytes = 64 << 20;
constexpr std::size_t kMaxShards = 4096;

Result<SafetensorsHeader> read_header(const platform::OpenFile& file, CancelFlag cancel) {
  std::string prefix(std::min<std::uint64_t>(8, file.size), '\0');
  QINFER_TRY(platform::read_at(file, 0, std::as_writable_bytes(std::span(prefix))));
  QINFER_ASSIGN(const std::uint64_t length, safetensors_header_bytes(prefix, file.size, file.name));
  prefix.resize(8 + length);
  QINFER_TRY(platform::read_at(file, 8, std::as_writable_bytes(std::span(prefix).subspan(8))));
  return parse_safetensors_header(prefix, file.size, file.name, cancel);
}

/// "weight_map" of an index file as a flat list of tensor names and their files; everything else in it is passed over.
class IndexEvents final : public JsonEvents {
 public:
  bool on_key(std::string_view key) override {
    if (depth_ == 1) {
      in_map_ = key == "weight_map";
      if (in_map_ && std::exchange(has_map, true)) return fail("the key \"weight_map\" appears twice in one object");
    } else if (in_map_) {
      tensor_.assign(key);
    }
    return true;
  }

  bool on_string(std::string_view value) override {
    if (!in_map_) return true;
    if (depth_ != 2) return not_an_object();
    const auto [at, is_new] = shard_numbers_.emplace(value, static_cast<std::uint32_t>(shards.size()));
    if (is_new && shards.size() == kMaxShards)
      return fail(format_text("more than {} shards, at most that many are accepted", kMaxShards));
    if (is_new) shards.emplace_back(value);
    entries.push_back(
        {static_cast<std::uint32_t>(names_.size()), static_cast<std::uint32_t>(tensor_.size()), at->second});
    names_.insert(names_.end(), tensor_.begin(), tensor_.end());
    return true;
  }

  bool on_integer(std::int64_t) override { return on_wrong_value(); }
  bool on_other(const JsonScalar&) override { return on_wrong_value(); }
  bool on_begin(bool is_object) override {
    if (in_map_ && depth_ == 1 && !is_object) return not_an_object();
    if (in_map_ && depth_ == 2) return on_wrong_value();
    ++depth_;
    return true;
  }
  bool on_end(bool) override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  struct Entry {
    std::uint32_t name_begin, name_size, shard;
  };
  std::string_view name(const Entry& entry) const { return {names_.data() + entry.name_begin, entry.name_size}; }

  /// Sorts files and entries by name, so that the order in the index file does not matter; an entry that is there twice
  /// is a failure.
  void sort() {
    std::vector<std::uint32_t> rank(shards.size());
    std::uint32_t next = 0;
    for (const auto& [name, number] : shard_numbers_) {
      shards[next] = name;
      rank[number] = next++;
    }
    for (Entry& entry : entries) entry.shard = rank[entry.shard];
    const auto less = [this](const Entry& a, const Entry& b) { return name(a) < name(b); };
    std::sort(entries.begin(), entries.end(), less);
    for (std::size_t i = 1; i < entries.size(); ++i)
      if (name(entries[i - 1]) == name(entries[i]))
        fail(format_text("the key \"{}\" appears twice in one object", name(entries[i])));
  }
  bool contains(std::string_view tensor) const {
    const auto at = std::lower_bound(entries.begin(), entries.end(), tensor,
                                     [this](const Entry& entry, std::string_view n) { return name(entry) < n; });
    return at != entries.end() && name(*at) == tensor;
  }

  std::vector<Entry> entries;
  std::vector<std::string> shards;
  bool has_map = false;
  std::string failure;

 private:
  bool fail(std::string message) {
    failure = std::move(message);
    return false;
  }
  bool not_an_object() { return fail("\"weight_map\" must be an object that names a file for each tensor"); }
  bool on_wrong_value() {
    if (!in_map_) return true;
    if (depth_ != 2) return not_an_object();
    return fail(format_text("the file of tensor \"{}\" must be a string", tensor_));
  }

  int depth_ = 0;
  bool in_map_ = false;
  std::string tensor_;
  std::vector<char> names_;
  std::map<std::string, std::uint32_t> shard_numbers_;
};

}  // namespace

std::string shape_text(const std::vector<std::uint64_t>& shape) { return format_text("[{}]", join_texts(shape, ", ")); }

namespace {

struct StoredEncoding {
  Encoding encoding;
  std::string_view name;
};
constexpr StoredEncoding kStoredEncodings[] = {
    {Encoding::f32, "F32"}, {Encoding::f16, "F16"}, {Encoding::bf16, "BF16"}};

}  // namespace

std::optional<Encoding> find_stored_encoding(std::string_view dtype) {
  for (const StoredEncoding& row : kStoredEncodings)
    if (row.name == dtype) return row.encoding;
  return std::nullopt;
}

std::string_view stored_encoding_name(Encoding encoding) {
  for (const StoredEncoding& row : kStoredEncodings)
    if (row.encoding == encoding) return row.name;
  return {};
}

Status Checkpoint::add_shard(platform::OpenFile file, CancelFlag cancel) {
  QINFER_ASSIGN(SafetensorsHeader header, read_header(file, cancel));
  const std::size_t shard = files_.size();
  files_.push_back(std::move(file));
  mappings_.emplace_back();
  for (Tensor& tensor : header.tensors) tensor.shard = shard;
  shard_metadata_.push_back(std::move(header.metadata));
  tensors_.insert(tensors_.end(), std::make_move_iterator(header.tensors.begin()),
                  std::make_move_iterator(header.tensors.end()));
  return Status();
}

void Checkpoint::merge_metadata() {
  if (shard_metadata_.size() == 1) {
    metadata_ = std::move(shard_metadata_[0]);
  } else {
    // Of equal keys the one that is added last stays: that of the first file.
    for (auto table = shard_metadata_.rbegin(); table != shard_metadata_.rend(); ++table)
      for (std::size_t i = 0; i < table->size(); ++i) metadata_.add(table->key(i), table->value(i));
    static_cast<void>(metadata_.finish());
  }
  shard_metadata_.clear();
}

Status Checkpoint::index_names() {
  if (tensors_.size() > UINT32_MAX) return error_at(Code::format, -1, "the checkpoint has {} tensors", tensors_.size());
  by_name_.resize(tensors_.size());
  for (std::uint32_t i = 0; i < by_name_.size(); ++i) by_name_[i] = i;
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const Tensor &a = tensors_[by_name_[i - 1]], &b = tensors_[by_name_[i]];
    if (a.name == b.name)
      return error_at(Code::format, -1, "{}: tensor \"{}\" is in another shard too",
                      files_[std::max(a.shard, b.shard)].name, a.name);
  }
  return Status();
}

Status Checkpoint::add_shards(const platform::Directory& directory, std::string_view index_text, CancelFlag cancel) {
  IndexEvents index;
  QINFER_TRY(parse_json_events(index_text, kIndexFile, index, cancel));
  if (index.failure.empty()) index.sort();
  if (index.failure.empty() && (!index.has_map || index.entries.empty()))
    index.failure = "\"weight_map\" must be an object that names a file for each tensor";
  if (!index.failure.empty()) return error_at(Code::format, -1, "{}: {}", kIndexFile, index.failure);
  for (const std::string& name : index.shards) {
    auto file = directory.open_file(name);
    Status status = file.ok() ? add_shard(std::move(file.value()), cancel) : file.take_status();
    if (!status.ok()) return std::move(status).with_prefix(kIndexFile);
  }
  merge_metadata();
  QINFER_TRY(index_names().with_prefix(kIndexFile));
  for (const IndexEvents::Entry& entry : index.entries) {
    const Tensor* found = find(index.name(entry));
    if (found == nullptr || found->shard != entry.shard)
      return error_at(Code::format, -1, "{}: tensor \"{}\" is not in {}", kIndexFile, index.name(entry),
                      index.shards[entry.shard]);
  }
  if (index.entries.size() == tensors_.size()) return Status();
  for (const Tensor& tensor : tensors_)
    if (!index.contains(tensor.name))
      return error_at(Code::format, -1, "{}: tensor \"{}\" of {} is missing from \"weight_map\"", kIndexFile,
                      tensor.name, files_[tensor.shard].name);
  return Status();
}

Result<Checkpoint> Checkpoint::open(const platform::Directory& directory, CancelFlag cancel) {
  Checkpoint checkpoint;
  auto file = directory.open_file(kSingleFile);
  Status single = file.ok() ? checkpoint.add_shard(std::move(file.value()), cancel) : file.take_status();
  if (single.ok()) {
    checkpoint.merge_metadata();
    QINFER_TRY(checkpoint.index_names());
    return checkpoint;
  }
  if (single.code() != Code::not_found) return single;
  auto index = directory.read_text(kIndexFile, kMaxIndexBytes);
  if (!index.ok()) {
    Status status = index.take_status();
    if (status.code() != Code::not_found) return status;
    return error(Code::not_found, "{}: neither {} nor {} is there", directory.path(), kSingleFile, kIndexFile);
  }
  QINFER_TRY(checkpoint.add_shards(directory, index.value(), cancel));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_file(const std::string& path, CancelFlag cancel, const platform::Files* files) {
  Checkpoint checkpoint;
  QINFER_ASSIGN(platform::OpenFile file, platform::open_path(path, files));
  QINFER_TRY(checkpoint.add_shard(std::move(file), cancel));
  checkpoint.merge_metadata();
  QINFER_TRY(checkpoint.index_names());
  return checkpoint;
}

Status Checkpoint::add_folder(const platform::Directory& directory, std::string_view folder, CancelFlag cancel) {
  QINFER_ASSIGN(platform::OpenFile file, directory.open_file_in(folder, kSingleFile));
  file.name = format_text("{}/{}", folder, kSingleFile);
  const std::size_t before = tensors_.size();
  QINFER_TRY(add_shard(std::move(file), cancel));
  shard_metadata_.clear();
  for (std::size_t i = before; i < tensors_.size(); ++i)
    tensors_[i].name = format_text("{}/{}", folder, tensors_[i].name);
  return index_names();
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [this](std::uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return at == by_name_.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
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
