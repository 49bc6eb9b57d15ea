// The tensors of a checkpoint directory: model.safetensors, or the shards that model.safetensors.index.json names.
// Headers are read at opening; data is read or mapped tensor by tensor afterwards.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "formats/safetensors.h"
#include "platform/file.h"

namespace qinfer::formats {

/// One tensor of one file.
struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes in its file
  std::size_t shard = 0;

  std::uint64_t bytes() const { return end - begin; }
};

/// "[2048, 1024]"
std::string shape_text(const std::vector<std::uint64_t>& shape);

/// F32, F16 and BF16 only.
std::optional<DType> parse_dtype(std::string_view name);

class Checkpoint {
 public:
  /// Reads all headers. Messages name the file at fault.
  static Result<Checkpoint> open(const platform::Directory& directory);

  /// One safetensors file by its path, whatever it is called.
  static Result<Checkpoint> open_file(const std::string& path);

  const Tensor* find(std::string_view name) const;
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& shard_name(std::size_t shard) const { return files_[shard].name; }
  std::uint64_t file_bytes() const;
  std::size_t n_files() const { return files_.size(); }
  const platform::OpenFile& file(std::size_t shard) const { return files_[shard]; }

  /// Maps shard `shard` whole (once; further calls return the same mapping).
  Result<std::shared_ptr<platform::MappedFile>> map_shard(std::size_t shard);
  /// Copies out.size() bytes of a tensor, from `offset` on.
  Status read(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  Status add_shard(platform::OpenFile file);
  Status add_shards(const platform::Directory& directory, std::string_view index_text);

  std::vector<platform::OpenFile> files_;
  std::vector<std::shared_ptr<platform::MappedFile>> mappings_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace qinfer::formats
