// See dry.h.
#include "sampling/dry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sampling/numbers.h"
#include "sampling/sampler.h"

namespace qinfer::sampling {
namespace {

/// repeats[k] = how many tokens h and h without its last k have in common at their ends: the Z-algorithm (Main and
/// Lorentz 1984; Gusfield 1997) over h read backwards, linear in its length. Returns the largest.
std::uint32_t find_repeats(std::span<const std::int32_t> h, std::span<std::uint32_t> repeats) {
  const std::size_t n = h.size();
  const auto back = [&](std::size_t i) { return h[n - 1 - i]; };
  std::size_t left = 0, end = 0;  // the match that reaches furthest: back(i) = back(i - left) for left <= i < end
  std::uint32_t largest = 0;
  for (std::size_t k = 1; k < n; ++k) {
    std::size_t length = k < end ? std::min<std::size_t>(repeats[k - left], end - k) : 0;
    while (k + length < n && back(length) == back(k + length)) ++length;
    if (k + length > end) left = k, end = k + length;
    repeats[k] = static_cast<std::uint32_t>(length);
    largest = std::max(largest, repeats[k]);
  }
  return largest;
}

/// In double, by squaring: the same result everywhere, infinity where it is too large.
double power(double base, std::uint32_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent /= 2, base *= base)
    if (exponent % 2 != 0) result *= base;
  return result;
}

}  // namespace

DryBreakers::DryBreakers(std::vector<std::string> texts, std::uint32_t n_vocab, TokenBytes bytes)
    : texts_(std::move(texts)), bytes_(std::move(bytes)) {
  for (std::uint32_t id = 0; id < n_vocab; ++id) {
    const auto token = static_cast<std::int32_t>(id);
    const std::string_view own = bytes_(token);
    const auto begin = static_cast<std::ptrdiff_t>(endings_.size());
    bool whole = false;
    for (std::size_t i = 0; i < texts_.size() && !whole; ++i) {
      const std::string_view text = texts_[i];
      whole = own.find(text) != std::string_view::npos;
      for (std::size_t n = std::min(own.size(), text.size() - 1); n != 0 && !whole; --n)
        if (text.substr(text.size() - n) == own.substr(0, n))
          endings_.push_back({token, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(n)});
      if (!whole) continue;
      endings_.erase(endings_.begin() + begin, endings_.end());
      endings_.push_back({token, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(text.size())});
    }
  }
  endings_.shrink_to_fit();
}

std::span<const DryBreakers::Ending> DryBreakers::endings(std::int32_t token) const {
  const auto before = [](const Ending& ending, std::int32_t id) { return ending.token < id; };
  const auto begin = std::lower_bound(endings_.begin(), endings_.end(), token, before);
  auto end = begin;
  while (end != endings_.end() && end->token == token) ++end;
  return {begin, end};
}

bool DryBreakers::contains(std::int32_t token) const {
  const auto own = endings(token);
  return !own.empty() && own[0].inside == texts_[own[0].text].size();
}

bool DryBreakers::ends_in_last(std::span<const std::int32_t> history) const {
  for (const Ending& ending : endings(history.back())) {
    std::string_view rest(texts_[ending.text]);
    rest.remove_suffix(ending.inside);
    bool same = true;
    for (std::size_t i = history.size() - 1; same && !rest.empty() && i-- > 0;) {
      const std::string_view own = bytes_(history[i]);
      const std::size_t n = std::min(own.size(), rest.size());
      same = own.substr(own.size() - n) == rest.substr(rest.size() - n);
      rest.remove_suffix(n);
    }
    if (same && rest.empty()) return true;
  }
  return false;
}

std::size_t DryBreakers::tokens_after(std::span<const std::int32_t> history, std::size_t most) const {
  for (std::size_t i = 0; i < most && i < history.size(); ++i)
    if (ends_in_last(history.first(history.size() - i))) return i;
  return most;
}

void apply_dry(const SamplerOptions& options, std::span<const std::int32_t> history, const DryBreakers* breakers,
               const SamplerWorkspace& workspace) {
  if (!has_dry(options)) return;
  const std::size_t n = options.dry_penalty_tokens == 0
                            ? history.size()
                            : std::min<std::size_t>(options.dry_penalty_tokens, history.size());
  const auto recent = history.last(n);
  const std::uint32_t allowed = options.dry_allowed_length == 0 ? 2 : options.dry_allowed_length;
  if (n <= allowed) return;
  const std::span<std::uint32_t> repeats = workspace.repeats.first(n);
  std::uint32_t most = find_repeats(recent, repeats);
  if (most >= allowed && breakers != nullptr) most = static_cast<std::uint32_t>(breakers->tokens_after(recent, most));
  if (most < allowed) return;
  const auto following = [&](std::size_t k) { return static_cast<std::size_t>(recent[n - k]); };
  for (std::size_t k = 1; k < n; ++k) {
    std::uint32_t& longest = workspace.counts[following(k)];
    longest = std::max(longest, std::min(repeats[k], most));
  }
  const double base = options.dry_base == 0 ? 1.75F : options.dry_base;
  for (std::size_t k = 1; k < n; ++k) {
    const std::size_t token = following(k);
    const std::uint32_t length = std::exchange(workspace.counts[token], 0);
    float& logit = workspace.logits[token];
    if (length < allowed || logit == -INFINITY) continue;
    if (breakers != nullptr && breakers->contains(static_cast<std::int32_t>(token))) continue;
    logit = saturated(logit - options.dry_multiplier * power(base, length - allowed));
  }
}

}  // namespace qinfer::sampling
