// The options of the sampler, and their bounds. What each does, and where it is from, says sampler.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace qinfer::sampling {

/// 0 is off, or the default that is named.
struct SamplerOptions {
  float temperature = 0;
  std::uint32_t top_k = 0;
  float top_p = 0, min_p = 0;
  float repeat_penalty = 0;
  float frequency_penalty = 0, presence_penalty = 0;
  std::uint32_t penalty_tokens = 0;  ///< how far back penalties look; 0 = all
  std::uint64_t seed = 0;
  float typical_p = 0, top_n_sigma = 0;
  float dynatemp_range = 0, dynatemp_exponent = 0;  ///< exponent 0 = 1
  float xtc_probability = 0, xtc_threshold = 0;     ///< threshold 0 = 0.1
  float dry_multiplier = 0, dry_base = 0;           ///< base 0 = 1.75
  std::uint32_t dry_allowed_length = 0;             ///< 0 = 2
  std::uint32_t dry_penalty_tokens = 0;             ///< 0 = all
  std::uint32_t mirostat = 0;                       ///< 0, or 2 = on
  float mirostat_tau = 0, mirostat_eta = 0;         ///< 0 = 5 and 0.1
  std::array<char, 20> steps = {};                  ///< letters, NUL-terminated; "" = kDefaultSteps

  bool operator==(const SamplerOptions&) const = default;
};

inline constexpr std::string_view kDefaultSteps = "edtskypmx";

/// QINFER_E_INVALID_ARGUMENT names the member that is out of range.
Status check_options(const SamplerOptions& options);

/// The steps in their order, of options that are checked.
std::string_view steps_of(const SamplerOptions& options);

inline bool has_penalties(const SamplerOptions& options) {
  return (options.repeat_penalty != 0 && options.repeat_penalty != 1) || options.frequency_penalty != 0 ||
         options.presence_penalty != 0;
}
inline bool has_dry(const SamplerOptions& options) { return options.dry_multiplier != 0; }
inline bool has_mirostat(const SamplerOptions& options) { return options.mirostat != 0; }
inline float mirostat_tau(const SamplerOptions& options) {
  return options.mirostat_tau == 0 ? 5.0F : options.mirostat_tau;
}
/// The bound of surprises before the first draw.
inline float mirostat_begin(const SamplerOptions& options) { return 2 * mirostat_tau(options); }

}  // namespace qinfer::sampling
