// Log probabilities: the natural logarithm of the softmax of a row of logits, as the model gave it, in double.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace qinfer::sampling {

/// What is subtracted from each logit: m + log(sum of exp(l - m)), m being the largest. QINFER_E_NUMERIC if a logit is
/// not finite. Needs the default floating-point environment, allocates nothing on success.
Result<double> log_normalizer(std::span<const float> logits);

/// The log probabilities of some tokens of the row.
void subtract(std::span<const float> logits, std::span<const std::int32_t> tokens, double normalizer,
              std::span<double> out);

/// The tokens of the largest logits, in descending order; equal ones by id. At most logits.size() of them.
void top_tokens(std::span<const float> logits, std::span<std::int32_t> out);

}  // namespace qinfer::sampling
