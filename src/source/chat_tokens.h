// What a chat template says about tokens: the texts of those that it knows by name, and which token ends a turn.
//
// A model has to stop where its turn ends. Its files say so in several places, of which any may be missing:
// config.json, generation_config.json, tokenizer_config.json's eos_token; in a GGUF file tokenizer.ggml.eos_token_id,
// eot_token_id and eom_token_id. The rule, for both formats alike, is that end tokens are
//   1. those that any of these name;
//   2. added tokens with a name that ends a turn in every model that has it (a table in chat_tokens.cpp);
//   3. the token that the chat template writes after the last answer of a conversation: a literal of the shape <...> or
//      [...] that is one whole token, directly after the answer, with nothing of the same turn after it.
// A table of exceptions names what ends a part of a turn only. Tokens of the third kind are control tokens, whatever
// the file says they are: conversions of GGUF files exist in which they are ordinary text, and would be spelled letter
// by letter. In such a file the literals that the next turn of the user and the next answer begin with are control
// tokens, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/cancel.h"
#include "base/notes.h"
#include "base/status.h"
#include "model/spec.h"
#include "source/model_source.h"
#include "text/tokenizer.h"

namespace qinfer::source {

/// Whether added tokens of this name end a turn in every model that has them.
bool is_end_name(std::string_view name);
/// <...> or [...], of no more than 64 bytes and without white space.
bool has_marker_shape(std::string_view text);

/// The texts of bos_token and eos_token for a template; none: not defined. `tokenizer` may be null.
std::optional<std::string> bos_text(const ChatTemplates& templates, const text::Tokenizer* tokenizer,
                                    const model::ModelSpec& spec);
std::optional<std::string> eos_text(const ChatTemplates& templates, const text::Tokenizer* tokenizer,
                                    const model::ModelSpec& spec);

/// Adds the end tokens of the rule above to the spec's and makes them control tokens. Notes say what changed its kind.
/// A template that cannot be rendered says nothing. Fails only where it is cancelled or memory is short.
Status find_end_tokens(const ChatTemplates& templates, text::Tokenizer& tokenizer, model::ModelSpec& spec, Notes& notes,
                       CancelFlag cancel);

}  // namespace qinfer::source
