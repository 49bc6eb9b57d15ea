// Sequences of calls of the C ABI, decoded from bytes: caches of all kinds, sessions that are appended to, evaluated in
// batches, cut back, forked, saved, loaded and freed in any order, cancelled and refused. Beside each session stands a
// list of the tokens that it should hold; its logits must be, bit for bit, those of a fresh session with these tokens
// in a fresh cache. fuzz_api and a test with fixed seeds share this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace qinfer::fuzz {

/// What happened, so that a test can see that it did.
struct ApiCounts {
  std::size_t evals = 0, compared = 0, forks = 0, loads = 0, full = 0, refused = 0, cancelled = 0, generated = 0;
};

class ApiSequences {
 public:
  /// Writes and loads the models.
  ApiSequences();
  ~ApiSequences();
  ApiSequences(const ApiSequences&) = delete;
  ApiSequences& operator=(const ApiSequences&) = delete;

  /// One sequence. Writes what differs to stderr and traps where something does.
  void run(std::string_view input);

  const ApiCounts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qinfer::fuzz
