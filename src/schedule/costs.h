// What a step of a scheduler will take: learned from what its steps took.
//
// A step evaluates rows: of sessions that decode, one each and more for guesses, and of prompts. A few rows take as
// long as reading the weights does, many as long as computing them; so steps with and without prompts are told apart,
// and for each kind the time is taken to be
//
//   fixed + rows * a + context * c
//
// where context is the sum, over all rows, of the positions that attention reads. The three numbers are fitted to the
// steps so far by least squares, in which a step of `kMemory` steps ago counts 1/e as much as the last one; they are
// never negative. Until there were steps, a guess takes their place, which holds the less the more was learned.
#pragma once

#include <array>
#include <cstdint>

namespace qinfer::schedule {

struct StepShape {
  std::uint32_t decode_rows = 0, prefill_rows = 0;
  std::uint64_t context = 0;  ///< positions that the rows see, summed
};

/// How long steps take: an interface, so that a simulation can say what is true.
class StepCosts {
 public:
  virtual ~StepCosts() = default;
  /// In seconds.
  virtual double predict(const StepShape& step) const = 0;
  virtual void learn(const StepShape& step, double seconds) = 0;
};

class LearnedCosts final : public StepCosts {
 public:
  double predict(const StepShape& step) const override { return fit_of(step).predict(step); }
  void learn(const StepShape& step, double seconds) override;

 private:
  static constexpr std::size_t kTerms = 3;
  static constexpr double kMemory = 200;
  using Terms = std::array<double, kTerms>;
  static Terms terms_of(const StepShape& step);

  class Fit {
   public:
    explicit Fit(const Terms& guess);
    double predict(const StepShape& step) const;
    void learn(const StepShape& step, double seconds);

   private:
    void solve();
    std::array<Terms, kTerms> products_{};  ///< sums of products of two terms, older ones fading
    Terms with_time_{};                     ///< the same with the time
    Terms weights_;
  };
  const Fit& fit_of(const StepShape& step) const { return step.prefill_rows != 0 ? with_prompts_ : decoding_; }

  // A guess of a small model on two cores: 40 ms for the weights, 2 ms to compute a row.
  Fit decoding_{{0.04, 0.0002, 0.001}}, with_prompts_{{0, 0.002, 0.001}};
};

}  // namespace qinfer::schedule
