// Which requests begin, and which rows the next step evaluates. A plain object: it knows no model, session or clock,
// what steps take is told it by StepCosts, and it allocates nothing after it was made.
//
// A step. Each request that decodes has one row; more for guesses are the scheduler's matter. Prompts share the rows
// that fit into what is left of the step's time, at least `least_rows`, so that a long prompt delays the tokens of
// others by a step's time and not by its own. Where nothing decodes, a step may take four times as long.
//
// Sharing. Keys (users, tenants) have equal parts by deficit round robin (Shreedhar and Varghese, 1996), and so have
// the prompts of a key among themselves: who could not have its part goes first in the next step, with what it has left
// over. So a key with a hundred prompts gets no more than one with a single prompt, and a short prompt does not wait
// for the end of a long one.
//
// Beginning. A request begins when its blocks can be promised: for the prompt and all tokens that it may add, or with
// `overcommit` for the prompt alone. Of those that fit the first is the one of the highest priority, then of the key
// with the fewest running requests, then with the most tokens in the prefix cache, then the oldest. A request that was
// passed over by younger ones `most_passed` times is next, and none begins until its blocks are free. One that needs
// more blocks than there are is refused. So no request waits forever, whatever others send. One whose prompt begins
// like one that is being evaluated had better wait for that (`Has::waits`), but not for longer than that.
//
// Parking, with `overcommit`. Where a request finds no blocks, one of those that hold some leaves: of the lowest
// priority, which is no higher than that of the one that found none, the one with the most tokens left to do. It is
// planned no more until its keys and values are elsewhere (parked()), its blocks were given back and, when there is
// room again, it has returned. Of the highest priority the request with the fewest tokens left never leaves, so that
// one always comes to its end; nor do others begin while one is parked, so that its turn comes. A paused request leaves
// also where one that waits, or is parked, has no room (make_room()). One leaves or returns at a time. What returns or
// begins needs, besides its own blocks, room for `headroom_blocks` of each request here, so that it is not sent away
// again at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/costs.h"

namespace qinfer::schedule {

struct PolicyOptions {
  std::uint32_t max_running = 16, max_waiting = 256;
  double step_seconds = 0.1;      ///< that a step with decoding rows should take at most
  std::uint32_t least_rows = 8;   ///< of prompts, in each step that has prompts
  std::uint32_t most_rows = 512;  ///< of a step, of all kinds; more than max_running
  std::uint64_t blocks = 0;       ///< that may be promised
  bool overcommit = false;
  std::uint64_t headroom_blocks = 0;  ///< with overcommit: for each request, as far as it may still need them
  std::uint32_t most_passed = 16;     ///< times that a waiting request is passed over
};

struct Request {
  std::uint64_t id = 0, key = 0;
  std::int32_t priority = 0;        ///< higher ones first
  std::uint32_t prompt_tokens = 0;  ///< at least 1
  std::uint64_t prompt_blocks = 0;  ///< that the prompt needs
  std::uint64_t all_blocks = 0;     ///< that it needs at most
  std::uint64_t all_tokens = 0;     ///< that it has at most, its prompt among them
  bool is_reservation = false;      ///< others evaluate what its blocks are for: it is never planned, and never leaves
};

/// What a request does in a step: one row that decodes, or some of its prompt.
struct Share {
  std::uint64_t id = 0;
  std::uint32_t rows = 0;
  bool is_prompt = false;
};

class Policy {
 public:
  Policy(const PolicyOptions& options, StepCosts& costs);
  /// What it takes besides the object.
  static std::uint64_t memory_bytes(std::uint32_t max_running, std::uint32_t max_waiting) {
    return std::uint64_t{max_waiting} * sizeof(Waiting) +
           std::uint64_t{max_running} *
               (sizeof(Running) + sizeof(Key) + sizeof(Share) + sizeof(Claim*) + 2 * sizeof(Claim));
  }

  /// False: max_waiting are waiting, or it needs more blocks than there are.
  bool submit(const Request& request);
  /// A waiting or running request is over.
  void end(std::uint64_t id);

  std::size_t n_waiting() const { return waiting_.size(); }
  std::size_t n_running() const { return running_.size(); }
  std::size_t n_parked() const { return n_at(Place::parked); }
  std::size_t n_here() const { return n_at(Place::here); }
  std::uint64_t promised_blocks() const;

  /// What a waiting request has already: tokens of its prompt that need not be evaluated, and blocks.
  struct Has {
    std::uint32_t resident = 0;
    std::uint64_t held = 0;
    bool waits = false;  ///< for what another request evaluates now
  };
  /// The waiting request that begins next, if one may now. `has`: (id) -> Has. `others`: blocks that are held, but not
  /// by running requests. They count while a request runs: then there may be fewer later. Where none does the next one
  /// tries, rather than wait for ever, unless `may_try` is false.
  template <typename Asked>
  std::optional<std::uint64_t> next(Asked has, std::uint64_t others, bool may_try = true) {
    if (running_.size() == options_.max_running) return std::nullopt;
    for (Waiting& waiting : waiting_) waiting.has = has(waiting.request.id);
    others_ = running_.empty() && may_try ? 0 : others;
    return choose();
  }
  template <typename Resident>
  std::optional<std::uint64_t> next(Resident resident) {
    return next([&](std::uint64_t id) { return Has{resident(id), 0}; }, 0);
  }
  /// What next() gave has begun; the first `evaluated` tokens of its prompt, not all, are there already.
  void begin(std::uint64_t id, std::uint32_t evaluated);

  /// The next step, of whose time so many seconds are spent already. Valid until the next call.
  std::span<const Share> plan(double spent = 0);
  /// The plan was carried out, in so many seconds, with so many rows more of those that decode.
  void stepped(double seconds, std::uint32_t more_rows = 0);
  /// A request of the plan was not evaluated.
  void skipped(std::uint64_t id);
  /// Nothing of a request is planned until it goes on, and one that waits does not begin. One that runs keeps its
  /// blocks; with overcommit it is the first to leave, and does not return before.
  void pause(std::uint64_t id, bool paused);
  /// So many tokens of a running request are there: more than its rows were, since others had evaluated them, or fewer.
  void evaluated(std::uint64_t id, std::uint32_t tokens);

  // ---- With overcommit ----

  /// Blocks that a running request holds now, and no other.
  void holds(std::uint64_t id, std::uint64_t blocks);
  /// A running request has found no blocks: which one leaves, if one does; whether others here will give blocks back.
  /// If not, other sessions have them all.
  struct Relief {
    std::uint64_t leaves = 0;
    bool is_coming = true;
  };
  Relief relieve(std::uint64_t id);
  /// Where next() and next_to_return() give none: the paused request that leaves, if one that waits, or is parked, has
  /// no room.
  std::optional<std::uint64_t> make_room();
  /// One that leaves has given its blocks back.
  void parked(std::uint64_t id);
  /// The parked request that takes its blocks again now, if one may; `others` as for next(). The one of the highest
  /// priority, then the oldest, or none. Where no request is here that could make room it may even if there is none.
  std::optional<std::uint64_t> next_to_return(std::uint64_t others);
  /// It has not found its blocks, and is parked as before.
  void stay_parked(std::uint64_t id) { parked(id); }
  /// Its keys and values are back.
  void returned(std::uint64_t id);

 private:
  enum class Place : std::uint8_t { here, leaving, parked, returning };
  struct Waiting {
    Request request;
    std::uint32_t passed = 0;
    Has has;
    bool paused = false;
  };
  /// Of one that shares rows with others.
  struct Claim {
    std::uint32_t wanted = 0, given = 0;
    std::uint32_t deficit = 0;    ///< rows of its part that it has left over
    std::uint64_t served_at = 0;  ///< when it last had its whole part: who has waited longest goes first
  };
  struct Running {
    Request request;
    std::uint32_t evaluated = 0;  ///< tokens
    Claim claim;
    std::uint64_t held = 0;  ///< blocks; of one that is parked those that it needs to return
    Place place = Place::here;
    bool paused = false;
    bool is_here() const { return place == Place::here; }
    bool is_planned() const { return is_here() && !paused && !request.is_reservation; }
    /// Its turn to return comes before others begin.
    bool is_awaited() const { return !is_here() && !(paused && place == Place::parked); }
    bool decodes() const { return evaluated >= request.prompt_tokens; }
    std::uint64_t tokens_left() const {
      return request.all_tokens - std::min<std::uint64_t>(request.all_tokens, evaluated);
    }
  };
  struct Key {
    std::uint64_t key = 0;
    Claim claim;
  };

  std::optional<std::uint64_t> choose() const;
  bool fits(const Waiting& waiting) const;
  std::uint64_t to_begin(const Request& request) const;
  std::uint64_t promised_to(const Running& running) const;
  std::uint64_t headroom_of(const Request& request, std::uint64_t has) const;
  std::uint64_t headroom() const;
  std::size_t n_at(Place place) const;
  Running* find(std::uint64_t id);
  std::size_t running_of(std::uint64_t key) const;
  bool comes_before(const Waiting& a, const Waiting& b) const;
  Key& key_of(std::uint64_t key);
  void share_rows();
  StepShape planned_shape() const;
  void share_among_keys(std::uint32_t rows);
  void share(std::vector<Claim*>& claims, std::uint32_t rows);
  void save_claims();
  void restore_claims();

  PolicyOptions options_;
  StepCosts& costs_;
  std::vector<Waiting> waiting_;  ///< in the order of arrival
  std::vector<Running> running_;  ///< in the order of beginning
  std::vector<Key> keys_;         ///< of running requests
  std::vector<Share> plan_;
  std::vector<Claim*> claims_;  ///< working space, as is saved_
  std::vector<Claim> saved_;
  StepShape shape_;  ///< of plan_
  std::uint64_t others_ = 0;
  std::uint64_t turn_ = 0;
  double spent_ = 0;  ///< seconds of the step
};

}  // namespace qinfer::schedule
