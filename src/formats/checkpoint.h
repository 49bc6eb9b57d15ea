// The tensors of a checkpoint directory: model.safetensors, or the shards that model.safetensors.index.json names.
// Headers are read at opening; data is read or mapped tensor by tensor afterwards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/encoding.h"
#include "formats/safetensors.h"
#include "platform/file.h"

namespace qinfer::formats {

inline constexpr std::string_view kSingleFile = "model.safetensors", kIndexFile = "model.safetensors.index.json";

/// "[2048, 1024]"
std::string shape_text(const std::vector<std::uint64_t>& shape);

/// The encoding of weights that a safetensors file calls `dtype` ("BF16"), and the other way round.
std::optional<Encoding> find_stored_encoding(std::string_view dtype);
std::string_view stored_encoding_name(Encoding encoding);

class Checkpoint {
 public:
  /// Reads all headers. Messages name the file at fault.
  static Result<Checkpoint> open(const platform::Directory& directory, CancelFlag cancel);

  /// One safetensors file by its path, whatever it is called.
  static Result<Checkpoint> open_file(const std::string& path, CancelFlag cancel,
                                      const platform::Files* files = nullptr);

  /// Adds model.safetensors of a folder of the directory; its tensors are called "<folder>/<name>".
  Status add_folder(const platform::Directory& directory, std::string_view folder, CancelFlag cancel);

  const Tensor* find(std::string_view name) const;
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Of the first file; of shards, that of the others too, where its keys are new.
  const TextTable& metadata() const { return metadata_; }
  const std::string& shard_name(std::size_t shard) const { return files_[shard].name; }
  std::uint64_t file_bytes() const;
  std::size_t n_files() const { return files_.size(); }
  const platform::OpenFile& file(std::size_t shard) const { return files_[shard]; }

  /// Maps shard `shard` whole (once; further calls return the same mapping).
  Result<std::shared_ptr<platform::MappedFile>> map_shard(std::size_t shard);
  /// Copies out.size() bytes of a tensor, from `offset` on.
  Status read(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  Status add_shard(platform::OpenFile file, CancelFlag cancel);
  Status add_shards(const platform::Directory& directory, std::string_view index_text, CancelFlag cancel);
  void merge_metadata();
  /// After the last file: sorts the tensors' names, so that find() knows them; Code::format if two shards have the
  /// same.
  Status index_names();

  std::vector<platform::OpenFile> files_;
  std::vector<std::shared_ptr<platform::MappedFile>> mappings_;
  std::vector<Tensor> tensors_;
  std::vector<std::uint32_t> by_name_;  ///< indices into tensors_, in the order of their names
  TextTable metadata_;
  std::vector<TextTable> shard_metadata_;  ///< while files are added
};

}  // namespace qinfer::formats
