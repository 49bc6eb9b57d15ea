// The tokenizer of a model directory as key-values of a GGUF file: the inverse of gguf_tokenizer.h.
//
// tokenizer.huggingface.json has the whole tokenizer.json, which this library reads. For llama.cpp the keys of
// tokenizer.ggml are written where they can say the same: byte-level BPE whose patterns and normaliser are those of a
// name in gguf_pre_tokenizers.h, SentencePiece's BPE, and the kinds of gguf_encoder_tokenizer_export.h. Otherwise
// tokenizer.ggml.model is "none".
#pragma once

#include <string_view>

#include "base/cancel.h"
#include "base/status.h"
#include "formats/gguf_writer.h"
#include "source/model_source.h"

namespace qinfer::source {

/// `json`: of tokenizer.json. Gives what llama.cpp's keys cannot say of it; empty if they say all.
Result<std::string> add_gguf_tokenizer(std::string_view json, const model::ModelSpec& spec,
                                       const text::Tokenizer& tokenizer, CancelFlag cancel, formats::GgufWriter& out);

void add_gguf_chat_templates(const ChatTemplates& templates, formats::GgufWriter& out);

}  // namespace qinfer::source
