// Pieces of answers: tokens with their log probabilities, and embeddings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "openai/answer.h"

namespace qinfer::openai {

/// An element of a chat's logprobs.content: text, probability, bytes, and the same of the most likely ones.
void append_chat_logprobs(const LikelyToken& token, std::span<const LikelyToken> top, std::string& out);
/// An element of a completion's top_logprobs, an object by texts: the most likely tokens, and the token itself. Of
/// those with the same text the first is in it.
void append_top_logprobs(const LikelyToken& token, std::span<const LikelyToken> top, std::string& out);
/// A token of a completion as text: "bytes:\xe2\x80" where it is no whole characters.
std::string shown_text(std::string_view bytes);
/// With U+FFFD for each byte that is part of no whole character.
std::string valid_text(std::string_view bytes);
/// Little-endian, with padding.
std::string base64_of(std::span<const float> values);

}  // namespace qinfer::openai
