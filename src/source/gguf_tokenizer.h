// The tokenizer of a GGUF file, made from its key-values (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
//
// tokenizer.huggingface.json, where a file has it, is a whole tokenizer.json, and the tokenizer is that. Otherwise it
// is byte-level BPE (tokenizer.ggml.model "gpt2") or SentencePiece's BPE by scores ("llama"); other models are refused.
// What conversion to GGUF loses of a tokenizer.json is put back where the file says which model it was
// (gguf_pre_tokenizers.h; Phi-3's tokens that take the white space after them). What is not known any more is: whether
// other added tokens take white space or must be whole words, and normalisation of models that are not in that table.
#pragma once

#include <cstdint>
#include <memory>

#include "base/cancel.h"
#include "base/status.h"
#include "formats/gguf.h"
#include "source/model_source.h"
#include "text/tokenizer.h"

namespace qinfer::source {

struct GgufTokenizer {
  std::unique_ptr<text::Tokenizer> tokenizer;
  /// -1: there is none. Where keys are absent, the model "llama" has the ids 1, 2 and 0 for the first two and the
  /// unknown token; "gpt2" has none.
  text::TokenId bos = -1, eos = -1, eot = -1, eom = -1, unknown = -1, padding = -1;
};

/// Whether a file has a tokenizer: some say that they have "none", or nothing about it.
bool has_gguf_tokenizer(const formats::GgufMetadata& metadata);

/// Messages name the file and the key. QINFER_E_UNSUPPORTED for kinds of tokenizers that are not implemented.
Result<GgufTokenizer> read_gguf_tokenizer(const formats::GgufMetadata& metadata, const text::TokenizerLimits& limits,
                                          CancelFlag cancel);

/// What a tokenizer knows about the tokens that begin and end texts becomes the model's.
void take_end_tokens(const GgufTokenizer& tokenizer, model::ModelSpec& spec);

/// tokenizer.chat_template, and tokenizer.chat_template.NAME for each NAME of tokenizer.chat_templates.
ChatTemplates read_gguf_chat_templates(const formats::GgufMetadata& metadata);

}  // namespace qinfer::source
