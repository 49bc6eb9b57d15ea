// See logprobs.h.
#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>

namespace qinfer::sampling {

Result<double> log_normalizer(std::span<const float> logits) {
  float largest = -INFINITY;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) return error(Code::numeric, "the logit of token {} is {}", i, logits[i]);
    largest = std::max(largest, logits[i]);
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

void subtract(std::span<const float> logits, std::span<const std::int32_t> tokens, double normalizer,
              std::span<double> out) {
  for (std::size_t i = 0; i < tokens.size(); ++i) out[i] = logits[static_cast<std::size_t>(tokens[i])] - normalizer;
}

void top_tokens(std::span<const float> logits, std::span<std::int32_t> out) {
  // The heap's first is the worst of those kept, which a better one replaces.
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)], right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int32_t>(i);
  std::make_heap(out.begin(), out.end(), better);
  for (std::size_t i = out.size(); i < logits.size() && !out.empty(); ++i) {
    const auto token = static_cast<std::int32_t>(i);
    if (!better(token, out[0])) continue;
    std::pop_heap(out.begin(), out.end(), better);
    out.back() = token;
    std::push_heap(out.begin(), out.end(), better);
  }
  std::sort_heap(out.begin(), out.end(), better);
}

}  // namespace qinfer::sampling
