// Packed models: one file that holds a model as a kernel set wants it in memory, so that loading is mapping.
//
// The container is a safetensors file (https://github.com/huggingface/safetensors, "Format"): other tools can list it,
// and its reader is the one that checkpoints go through. Its tensors are the packed matrices ([tiles, K, 32] for tiles
// of 32 rows), the vectors as f32, "qinfer.rope", and the JSON texts of the model directory as U8 tensors
// "qinfer.text.<file>". What safetensors has no place for is in the metadata:
//   qinfer.packed      version of all this, "2"
//   qinfer.checksum    XXH3-64 of the header with these sixteen digits as zeros
//   qinfer.kernel_set  the kernel set that it was packed for; others with the same layout may use it
//   qinfer.exact       "1" if every matrix holds the checkpoint's values exactly
//   qinfer.source      fingerprint of the checkpoint's files
//   qinfer.fingerprint fingerprint of the model
//   qinfer.tensor.<n>  "layout rows cols scale largest dtype checksum" of tensor n: scale and largest as hexadecimal
//                      floating-point numbers, dtype that of the checkpoint, XXH3-64 of the data
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/checkpoint.h"
#include "kernel_set.h"
#include "source/fingerprint.h"

namespace qinfer::source {

inline constexpr std::string_view kPackedVersion = "2";
inline constexpr std::string_view kTextPrefix = "qinfer.text.";
inline constexpr std::string_view kRopeTensor = "qinfer.rope";
inline constexpr std::string_view kTensorKey = "qinfer.tensor.";  ///< in the metadata, before a tensor's name

/// One tensor of a packed file.
struct PackedTensor {
  kernels::WeightLayout layout = kernels::WeightLayout::row_major;
  std::optional<Encoding> quantised = {};  ///< of a matrix of blocks, whose dtype in the file is U8
  std::int64_t rows = 0, cols = 0;
  kernels::PackInfo pack;
  Encoding source = Encoding::f32;  ///< how the checkpoint had it
  std::uint64_t checksum = 0;
};

struct PackedFile {
  formats::Checkpoint checkpoint;
  std::map<std::string, PackedTensor, std::less<>> tensors;
  std::string kernel_set;
  Fingerprints fingerprints;  ///< of the checkpoint
  bool exact = false;

  /// Reads the header and checks it against its checksum. Messages name the file and what is wrong with it.
  static Result<PackedFile> open(const std::string& path, CancelFlag cancel, const platform::Files* files = nullptr);

  const PackedTensor* find(std::string_view name) const;
  /// A text of the model directory, verified; QINFER_E_NOT_FOUND if the directory had none.
  Result<std::string> text(std::string_view file, std::uint64_t max_bytes) const;
  /// QINFER_E_FORMAT if the data of a tensor, at `offset` of the file, is not what was written.
  Status verify(std::string_view name, std::span<const std::byte> data, std::string_view file,
                std::uint64_t offset) const;
};

/// Collects the tensors of a packed file, then writes it. Data is borrowed until write() returns.
class PackedWriter {
 public:
  struct Item {
    std::string name, dtype;
    std::vector<std::uint64_t> shape;
    std::span<const std::byte> data;
    PackedTensor info;
  };

  void add(Item item) { items_.push_back(std::move(item)); }

  /// Called with bytes written and in total; false cancels.
  using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

  /// Writes to a temporary name in its directory, then renames: `path` is either the old file or the whole new one.
  /// Another file than a packed model is not replaced: see is_packed_file().
  Status write(const std::string& path, std::string_view kernel_set, const Fingerprints& fingerprints, bool exact,
               const Progress& progress);

 private:
  std::string header(std::string_view kernel_set, const Fingerprints& fingerprints, bool exact) const;
  std::vector<Item> items_;
};

/// OK for a file that PackedWriter wrote, whole or not, as far as its first bytes tell; otherwise QINFER_E_FORMAT.
Status is_packed_file(const platform::OpenFile& file);

}  // namespace qinfer::source
