// See breaker_cache.h.
#include "engine/breaker_cache.h"

#include <algorithm>

namespace qinfer::engine {

std::shared_ptr<const sampling::DryBreakers> BreakerCache::get(const text::Tokenizer& tokenizer, std::uint32_t n_vocab,
                                                               std::vector<std::string> texts) {
  const Lock lock(mutex_);
  const auto known = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const auto& one) { return one != nullptr && one->texts() == texts; });
  if (known != kept_.end()) {
    std::rotate(kept_.begin(), known, known + 1);
    return kept_[0];
  }
  const auto bytes = [&tokenizer](std::int32_t token) { return tokenizer.token_bytes(token); };
  auto made = std::make_shared<const sampling::DryBreakers>(std::move(texts), n_vocab, bytes);
  std::rotate(kept_.begin(), kept_.end() - 1, kept_.end());
  return kept_[0] = std::move(made);
}

}  // namespace qinfer::engine
