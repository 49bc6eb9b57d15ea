// DRY ("don't repeat yourself"): a penalty for tokens that would go on with a repetition (p-e-w 2024,
// text-generation-webui pull request 5637).
//
// Let h be the last dry_penalty_tokens tokens (0: all), and n their number. For each 1 <= k < n, the token h[n - k]
// followed an earlier place; the repetition there has length r(k), the most tokens that the n - k tokens before h[n -
// k] and h have in common at their ends. No repetition reaches over a sequence breaker: r(k) is at most the number of
// tokens after the one in which the last breaker of h ends. With r the largest r(k) of a token t, if r >=
// dry_allowed_length:
//
//   l[t] -= dry_multiplier * dry_base^(r - dry_allowed_length)
//
// but not for a t that contains a breaker, and not beyond the range of f32. Breakers are texts, looked for as bytes in
// the texts of h's tokens one after another. (llama.cpp differs where a breaker spans tokens: it finds only those whose
// rest is split as its tokenizer splits it.)
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sampling/options.h"

namespace qinfer::sampling {

struct SamplerWorkspace;

inline constexpr std::size_t kMaxBreakers = 16, kMaxBreakerBytes = 40;
inline constexpr std::string_view kDefaultBreakers[] = {"\n", ":", "\"", "*"};

/// The breakers for one vocabulary. Immutable.
class DryBreakers {
 public:
  /// The bytes of a token; of as long a life as this object.
  using TokenBytes = std::function<std::string_view(std::int32_t)>;

  /// `texts`: within the bounds above; `n_vocab` tokens.
  DryBreakers(std::vector<std::string> texts, std::uint32_t n_vocab, TokenBytes bytes);

  const std::vector<std::string>& texts() const { return texts_; }
  /// Whether the token's own text has a breaker.
  bool contains(std::int32_t token) const;
  /// How many tokens come after the one in which the last breaker ends, if they are fewer than `most`; otherwise most.
  /// Looks at `most` tokens and those that a breaker that ends in them begins in.
  std::size_t tokens_after(std::span<const std::int32_t> history, std::size_t most) const;

 private:
  /// A breaker that may end in a token: its last `inside` bytes are the token's first ones.
  struct Ending {
    std::int32_t token;
    std::uint8_t text, inside;  ///< inside = the whole text: it is somewhere in the token
  };
  std::span<const Ending> endings(std::int32_t token) const;
  bool ends_in_last(std::span<const std::int32_t> history) const;

  std::vector<std::string> texts_;
  TokenBytes bytes_;
  std::vector<Ending> endings_;  ///< by token; what is wholly inside first
};

/// Changes logits. `counts` of the workspace is zero before and after, `repeats` has room for the history.
void apply_dry(const SamplerOptions& options, std::span<const std::int32_t> history, const DryBreakers* breakers,
               const SamplerWorkspace& workspace);

}  // namespace qinfer::sampling
