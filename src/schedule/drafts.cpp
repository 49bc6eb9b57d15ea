// See drafts.h.
#include "schedule/drafts.h"

#include <algorithm>

namespace qinfer::schedule {
namespace {

/// Longer matches are as good as this one.
constexpr std::size_t kLongestMatch = 16;
/// Guesses of as many matches ago count 1/e as much as the last one.
constexpr double kMemory = 32;
/// A mean of the last so many times.
constexpr double kTimes = 16;
/// Until other numbers of rows were measured: what a row more adds, as a part of the time. Small, so that larger
/// numbers are tried, and measured.
constexpr double kRowMore = 0.1;
/// Drafts must promise so much more, for what is measured is never exact.
constexpr double kMargin = 1.03;

/// How many tokens before `end` and before the last one are the same.
std::size_t match_at(std::span<const std::int32_t> tokens, std::size_t end) {
  const std::size_t most = std::min(kLongestMatch, end);
  std::size_t n = 0;
  while (n < most && tokens[end - 1 - n] == tokens[tokens.size() - 1 - n]) ++n;
  return n;
}

}  // namespace

Draft look_up(std::span<const std::int32_t> tokens, std::uint32_t most) {
  Draft draft;
  const std::size_t size = tokens.size();
  if (size < 3 || most == 0) return draft;
  const std::int32_t last = tokens[size - 1], before = tokens[size - 2];
  std::size_t found = 0;  // where the draft begins
  for (std::size_t end = size - 1; end >= 2 && draft.match < kLongestMatch; --end) {
    if (tokens[end - 1] != last || tokens[end - 2] != before) continue;
    const auto match = static_cast<std::uint32_t>(match_at(tokens, end));
    if (match <= draft.match) continue;
    draft.match = match;
    found = end;
  }
  if (draft.match == 0) return draft;
  draft.size = std::min(most, kMaxDraft);
  const std::size_t there = size - found;
  for (std::size_t i = 0; i < draft.size; ++i)
    draft.tokens[i] = i < there ? tokens[found + i] : draft.tokens[i - there];
  return draft;
}

void Acceptance::learn(std::uint32_t match, bool right) {
  Count& count = counts_[bucket(match)];
  constexpr double kKept = 1 - 1 / kMemory;
  count.right = count.right * kKept + (right ? 1 : 0);
  count.all = count.all * kKept + 1;
}

void RowCosts::learn(std::uint32_t rows, std::uint64_t context, double seconds) {
  if (rows == 0 || rows > kMost || !(seconds > 0)) return;
  Mean& mean = of_rows_[rows];
  const auto positions = static_cast<double>(context);
  if (mean.weight == 0) {
    mean = {1, seconds, positions};
    return;
  }
  // What disturbs a step makes it longer: one that took twice as long as expected counts as such, however long it took.
  const double expected = at(mean, positions), time = std::min(seconds, 2 * expected);
  const double more_time = time - mean.seconds, more_context = positions - mean.context;
  constexpr double kKept = 1 - 1 / (4 * kTimes);
  covariance_ = covariance_ * kKept + more_time * more_context;
  variance_ = variance_ * kKept + more_context * more_context;
  mean.weight = std::min(mean.weight + 1, kTimes);
  mean.seconds += more_time / mean.weight;
  mean.context += more_context / mean.weight;
}

double RowCosts::at(const Mean& mean, double context) const {
  const double slope = variance_ > 0 ? std::max(covariance_ / variance_, 0.0) : 0;
  return std::max(mean.seconds + slope * (context - mean.context), mean.seconds / 4);
}

double RowCosts::predict(std::uint32_t rows, std::uint64_t context) const {
  rows = std::min(rows, kMost);
  const auto positions = static_cast<double>(context);
  const auto known = [](const Mean& mean) { return mean.weight > 0; };
  const auto begin = of_rows_.begin();
  std::uint32_t fewer = rows, more = rows + 1;
  // One that was measured once counts half, the others' word the other half.
  const bool often = of_rows_[rows].weight > 1;
  if (often) return at(of_rows_[rows], positions);
  while (fewer > 0 && !known(of_rows_[--fewer])) continue;
  while (more <= kMost && !known(of_rows_[more])) ++more;
  double others = 0;
  if (fewer > 0 && more <= kMost) {
    const double low = at(begin[fewer], positions), high = at(begin[more], positions);
    others = low + (high - low) * (rows - fewer) / (more - fewer);
  } else if (fewer > 0) {
    others = at(begin[fewer], positions) * (1 + kRowMore * (rows - fewer));
  } else if (more <= kMost) {
    others = at(begin[more], positions);
  }
  if (!known(of_rows_[rows])) return others;
  const double own = at(of_rows_[rows], positions);
  return others > 0 ? (own + others) / 2 : own;
}

void share_drafts(std::span<DraftClaim> claims, std::uint32_t rows, std::uint64_t context, std::uint32_t most_rows,
                  const RowCosts& costs) {
  for (DraftClaim& claim : claims) claim.given = 0;
  most_rows = std::min(most_rows, RowCosts::kMost);
  const double alone = costs.predict(rows, context);
  if (alone <= 0 || rows >= most_rows) return;
  // Row by row the likeliest guess; then the number of rows at which most tokens come in a second.
  const auto give = [&](std::uint32_t most) {
    double tokens = rows, best = rows / alone * kMargin;
    std::uint32_t best_more = 0;
    for (DraftClaim& claim : claims) {
      claim.given = 0;
      if (claim.size != 0) claim.likely = claim.acceptance->of(claim.match);
    }
    for (std::uint32_t more = 1; more <= most; ++more) {
      DraftClaim* likeliest = nullptr;
      for (DraftClaim& claim : claims)
        if (claim.given < claim.size && (likeliest == nullptr || claim.likely > likeliest->likely)) likeliest = &claim;
      if (likeliest == nullptr) break;
      tokens += likeliest->likely;
      ++likeliest->given;
      likeliest->likely *= likeliest->acceptance->of(likeliest->match + likeliest->given);
      const double speed = tokens / costs.predict(rows + more, context);
      if (speed <= best) continue;
      best = speed;
      best_more = more;
    }
    return best_more;
  };
  give(give(most_rows - rows));
}

}  // namespace qinfer::schedule
