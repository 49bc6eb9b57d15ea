// Requests of OpenAI's interface, read: what is to be computed, as numbers and texts. No model is known here.
//
// A field that is not honoured is never passed over in silence: it is refused by name, or, where it asks for nothing
// that changes the answer (such as "user"), listed in Request::unused. null is as if the field were not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/status.h"

namespace qinfer::openai {

enum class Kind : std::int32_t { chat = 1, completion = 2, embeddings = 3 };

/// Bytes of a request. Values and depth have the bounds of every JSON text (formats/json.h).
inline constexpr std::size_t kMaxRequestBytes = std::size_t{64} << 20;
inline constexpr std::uint32_t kMaxChoices = 128, kMaxPrompts = 2048, kMaxAllChoices = 4096, kMaxStops = 256,
                               kMaxStopBytes = 4096;
inline constexpr std::uint32_t kMaxTopLogprobs = 20;
/// DRY's sequence breakers, as qinfer_session_set_dry_breakers has them.
inline constexpr std::size_t kMaxBreakers = 16, kMaxBreakerBytes = 40;

/// In the interface's terms: temperature 1 and top_p 1 change nothing, 0 leaves the likeliest token alone.
struct Sampling {
  double temperature = 1, top_p = 1, min_p = 0;
  std::uint32_t top_k = 0;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::optional<std::uint64_t> seed;  ///< negative ones as their bits
  std::vector<std::pair<std::int32_t, float>> bias;

  // By the names of llama.cpp's server; 0 is off, or the default of qinfer_sampler_options.
  double typical_p = 0, top_n_sigma = 0, dynatemp_range = 0, dynatemp_exponent = 0;
  double xtc_probability = 0, xtc_threshold = 0, dry_multiplier = 0, dry_base = 0;
  std::uint32_t dry_allowed_length = 0, dry_penalty_tokens = 0, mirostat = 0;
  double mirostat_tau = 0, mirostat_eta = 0;
  std::optional<std::vector<std::string>> dry_breakers;  ///< absent: the default ones
  std::string steps;                                     ///< letters of qinfer_sampler_options.steps
};

/// A text, or the tokens of one.
struct Prompt {
  std::string text;
  std::vector<std::int32_t> tokens;
  bool is_tokens = false;
};

struct Request {
  Kind kind = Kind::chat;
  std::string model;                        ///< as the client calls it; "" where it does not
  std::string conversation;                 ///< chat: JSON with messages, tools and variables of the template
  std::vector<Prompt> prompts;              ///< of the other kinds
  std::uint32_t n = 1;                      ///< choices for each prompt
  std::optional<std::uint32_t> max_tokens;  ///< new ones; 0 of a completion: none
  std::uint32_t max_reasoning_tokens = 0;   ///< 0 = no bound
  bool reasons = true;                      ///< false: nothing is taken for reasoning
  Sampling sampling;
  std::vector<std::string> stop;
  bool stream = false, stream_usage = false;
  std::optional<std::uint32_t> logprobs;  ///< with so many of the most likely tokens
  bool echo = false;
  bool parallel_calls = true;
  bool offers_tools = false;
  bool forces_call = false;  ///< of a tool, whose schema is made with the model (forced_call.h)
  std::string forced_name;   ///< of this one; "" = any
  std::string schema;        ///< JSON schema of the content; "" = none
  bool base64 = false;       ///< embeddings as base64 of little-endian floats
  std::optional<std::uint32_t> dimensions;
  std::vector<std::string> unused;  ///< fields that change nothing
};

/// QINFER_E_FORMAT for what is no JSON, or has a value that cannot be (the message names the field);
/// QINFER_E_UNSUPPORTED for a field that is known and not honoured.
Result<Request> read_request(Kind kind, std::string_view json, CancelFlag cancel = {});

}  // namespace qinfer::openai
