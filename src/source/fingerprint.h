// Fingerprints: whether two sources hold the same model, told without reading it whole.
//
// A fingerprint is made of what changes results: the spec, the tokenizer, and of each tensor of the model its shape,
// its encoding and samples of its bytes. Names of files, shards and templates are not part of it. Tensors of up to 1
// MiB are read whole, of larger ones 4 KiB at both ends and every 4 MiB: training or converting again changes the
// fingerprint, an edit of a single value inside a large matrix may not. Of a tensor that several tensors of the model
// are rows of, the samples are those of the whole, for each of them.
//
// The fingerprint of files is made of texts and places instead: three files of a directory, and the shard, name, type
// and range of every tensor, with the same samples. It tells whether a directory is as it was without reading what its
// texts say.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "model/tensors.h"

namespace qinfer::source {

struct Fingerprints {
  std::string model;  ///< "2:" and 16 hexadecimal digits
  std::string files;  ///< 16 hexadecimal digits; empty for a GGUF file
};

/// What fingerprints are made of besides tensors.
struct FingerprintTexts {
  /// Of files: name of one, and its hash, 0 where it is absent.
  std::vector<std::pair<std::string, std::uint64_t>> files;
  std::uint64_t tokenizer = 0;  ///< Tokenizer::fingerprint(), 0 without one
};

using FindTensor = std::function<Result<model::TensorInfo>(const model::TensorId& id)>;

/// `needs`: the tensors of the model; `find` gives where one is stored.
Result<Fingerprints> make_fingerprints(const model::ModelSpec& spec, const FingerprintTexts& texts,
                                       const formats::Checkpoint& checkpoint, std::span<const model::TensorNeed> needs,
                                       const FindTensor& find, CancelFlag cancel);

/// The same of a GGUF file, of the model alone. `tokenizer`: as in FingerprintTexts.
Result<Fingerprints> make_gguf_fingerprints(const model::ModelSpec& spec, std::uint64_t tokenizer,
                                            const formats::Gguf& gguf, std::span<const model::TensorNeed> needs,
                                            const FindTensor& find, CancelFlag cancel);

/// The names and samples of all tensors of a GGUF file.
Result<std::string> sample_gguf(const formats::Gguf& gguf, CancelFlag cancel);

/// That of files alone: whether they are as they were, to the place of each tensor.
Result<std::string> make_files_fingerprint(const FingerprintTexts& texts, const formats::Checkpoint& checkpoint,
                                           CancelFlag cancel);

}  // namespace qinfer::source
