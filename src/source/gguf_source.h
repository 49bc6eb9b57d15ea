// A GGUF file, single or split, as a source of a model.
#pragma once

#include "formats/gguf.h"
#include "source/hf_texts.h"
#include "source/model_source.h"

namespace qinfer::source {

/// `path`: the file, or the first of a split one.
Result<std::unique_ptr<ModelSource>> open_gguf(const std::string& path, const SourceOptions& options);

/// What a packed model that is made of a GGUF file keeps of its key-values, as texts: the config.json that they amount
/// to, and those of the tokenizer and of sampling as a GGUF file without tensors (kGgufTokenizer).
struct GgufTexts {
  std::string config, tokenizer;
};
Result<GgufTexts> read_gguf_texts(const formats::Gguf& gguf);

/// Keys that begin so say how to draw: "general.sampling.temp". Packed and exported models keep them.
inline constexpr std::string_view kSamplingKeys = "general.sampling.";
/// Adds single values whose keys begin with `begin` as texts: "gguf.general.name".
Status add_gguf_metadata(const formats::GgufMetadata& all, std::string_view begin, formats::TextTable& out);

/// Whether a GGUF file is what it was: its key-values, and samples of its tensors.
Result<std::string> gguf_state(const formats::Gguf& gguf, CancelFlag cancel);

}  // namespace qinfer::source
