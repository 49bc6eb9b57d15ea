// How much a call that reads a text may do. Every loop whose length a tokenizer file can decide (matching a pattern,
// looking for added tokens, growing a text) pays for its steps, so that a call ends within a number of steps that
// depends on the length of its text alone, whatever the file asks for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/cancel.h"
#include "base/status.h"

namespace qinfer::text {

class Work {
 public:
  /// A text of n bytes may take that many steps if the caller does not say otherwise. Real tokenizers take 4 to 16 a
  /// byte.
  static std::uint64_t default_limit(std::size_t n) { return kBase + kPerByte * std::uint64_t{n}; }
  static constexpr std::uint64_t kBase = 1'000'000, kPerByte = 512;

  Work(std::uint64_t limit, CancelFlag cancel) : left_(limit), limit_(limit), cancel_(cancel) {}

  /// Takes up to kSlice steps to be done without asking again; 0 when there are no more, or the host has cancelled.
  std::uint64_t take() {
    if (cancel_.requested()) return 0;
    const std::uint64_t slice = std::min(left_, kSlice);
    left_ -= slice;
    return slice;
  }
  void give_back(std::uint64_t steps) {
    if (!too_many_ways_) left_ += steps;
  }
  /// Ends the call: a pattern would have to remember more ways to match than it may.
  void refuse_ways() {
    too_many_ways_ = true;
    left_ = 0;
  }

  /// Pays for steps that are done, or will be. False when fewer are left.
  bool spend(std::uint64_t steps) {
    spent_since_look_ += steps;
    if (spent_since_look_ >= kSlice) {
      spent_since_look_ = 0;
      if (cancel_.requested()) return false;
    }
    if (steps > left_) {
      left_ = 0;
      return false;
    }
    left_ -= steps;
    return true;
  }

  /// Whether a step was refused.
  bool is_spent() const { return left_ == 0; }

  /// Why there was no more: cancelled, or too much for this text. `offset`: how far the call had come.
  Status stopped(std::size_t offset) const {
    if (cancel_.requested()) return error(Code::cancelled, "tokenizing was cancelled");
    if (too_many_ways_)
      return error_at(Code::unsupported, static_cast<std::int64_t>(offset),
                      "a pattern of the tokenizer has too many ways to match this text, at byte {} of it", offset);
    return error_at(Code::unsupported, static_cast<std::int64_t>(offset),
                    "the tokenizer takes more than {} steps for this text, at byte {} of it", limit_, offset);
  }

 private:
  static constexpr std::uint64_t kSlice = 65536;
  std::uint64_t left_, limit_, spent_since_look_ = 0;
  bool too_many_ways_ = false;
  CancelFlag cancel_;
};

}  // namespace qinfer::text
