// A GGUF file, single or split, as a source of a model.
#pragma once

#include "formats/gguf.h"
#include "source/hf_texts.h"
#include "source/model_source.h"

namespace qinfer::source {

/// `path`: the file, or the first of a split one.
Result<std::unique_ptr<ModelSource>> open_gguf(const std::string& path, const SourceOptions& options);

/// What a packed model that is made of a GGUF file keeps of its key-values, as texts: the config.json that they amount
/// to, and those of the tokenizer as a GGUF file without tensors (kTokenizerKeys).
struct GgufTexts {
  std::string config, tokenizer;
};
Result<GgufTexts> read_gguf_texts(const formats::Gguf& gguf);

/// Whether a GGUF file is what it was: its key-values, and samples of its tensors.
Result<std::string> gguf_state(const formats::Gguf& gguf, CancelFlag cancel);

}  // namespace qinfer::source
