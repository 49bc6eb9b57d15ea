// Guessing tokens ahead, which verifying makes certain: speculation by prompt lookup (Saxena, 2023).
//
// What a model writes is often there already: a name, a quotation, the lines of a file that it edits. So the tokens
// that followed the last ones where these occurred before are a guess, a *draft*, of what comes next. The evaluation
// that the last token needs anyway then has a row for each of them too: a few rows take hardly longer than one, since
// the time goes into reading the weights. Tokens are drawn position by position, as ever; one that was guessed is
// evaluated already, and the first that was not ends the draft. What is drawn is the same as without.
//
// A wrong guess costs time. How long a draft is worth being follows from two things that are measured all the time: how
// often guesses after a match of this length were right (Acceptance), which needs no drafts to be known, and how long
// an evaluation of so many rows takes (RowCosts). share_drafts() weighs them. None may be worth it.
//
// Nothing here allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace qinfer::schedule {

inline constexpr std::uint32_t kMaxDraft = 16;

/// Tokens that may come next, and how many tokens before them are the same as where they were found.
struct Draft {
  std::array<std::int32_t, kMaxDraft> tokens;
  std::uint32_t size = 0, match = 0;
};

/// Of at most `most` tokens, not more than kMaxDraft: what followed the longest earlier occurrence of the last tokens,
/// of equal ones the latest. Where that reaches to the end, it is taken to repeat. Matches of one token are none.
Draft look_up(std::span<const std::int32_t> tokens, std::uint32_t most);

/// How often the guess after a match of a certain length was right, in one text.
class Acceptance {
 public:
  double of(std::uint32_t match) const { return counts_[bucket(match)].right / counts_[bucket(match)].all; }
  void learn(std::uint32_t match, bool right);

 private:
  struct Count {
    double right, all;
  };
  static constexpr std::size_t kBuckets = 4;
  static std::size_t bucket(std::uint32_t match) { return match < 3 ? 0 : match < 5 ? 1 : match < 9 ? 2 : 3; }
  // At first a guess that counts as two observations.
  std::array<Count, kBuckets> counts_{{{0.4, 2}, {0.8, 2}, {1.2, 2}, {1.6, 2}}};
};

/// How long an evaluation takes in which each row gives logits, by the number of its rows. They are told apart, for the
/// time rises by steps, and the context that attention reads is added: the change of time with it is taken to be the
/// same for all numbers of rows.
class RowCosts {
 public:
  static constexpr std::uint32_t kMost = 64;  ///< rows
  /// `context`: positions that are read, summed over sessions.
  void learn(std::uint32_t rows, std::uint64_t context, double seconds);
  /// In seconds; 0 until something is known.
  double predict(std::uint32_t rows, std::uint64_t context) const;

 private:
  struct Mean {
    double weight = 0, seconds = 0, context = 0;
  };
  double at(const Mean& mean, double context) const;
  std::array<Mean, kMost + 1> of_rows_;
  double covariance_ = 0, variance_ = 0;  ///< of seconds and context, around these means
};

/// One that has a draft.
struct DraftClaim {
  const Acceptance* acceptance = nullptr;
  std::uint32_t match = 0;
  std::uint32_t size = 0;   ///< tokens of the draft
  std::uint32_t given = 0;  ///< out: how many of them are worth evaluating
  double likely = 1;        ///< working space: that all given ones and the next are right
};

/// In an evaluation of `rows` rows with this context: gives the likeliest guesses rows of their own, as many as bring
/// most tokens a second, all rows together not being more than `most_rows`.
void share_drafts(std::span<DraftClaim> claims, std::uint32_t rows, std::uint64_t context, std::uint32_t most_rows,
                  const RowCosts& costs);

}  // namespace qinfer::schedule
