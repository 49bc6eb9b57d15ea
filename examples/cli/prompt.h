// prompt.h: what generating and chatting share: a cache with room for one session, a prompt that is evaluated with a
// bar on a terminal while it takes long, and numbers for people.
#pragma once

#include <qinfer/qinfer.hpp>

#include <cstdint>
#include <string>

namespace cli {

/// A KV cache for one session of so many tokens, and no larger.
qi::KvCache make_cache(const qi::Model& model, const std::string& kv, std::uint32_t max_tokens);

/// Evaluates all that is pending. Throws qi::Error, of status QINFER_E_CANCELLED when `cancel` is requested: what was
/// evaluated until then stays. Returns how long it took, in nanoseconds.
std::uint64_t evaluate_prompt(qi::Session& session, const qi::Cancel& cancel);

std::string count_text(std::uint64_t tokens);              ///< "1 token", "20 tokens"
std::string rate(std::uint64_t tokens, std::uint64_t ns);  ///< " at 12.3 tokens/s", or "" where there is none
const char* finish_name(std::int32_t finish);              ///< "an end token"

}  // namespace cli
