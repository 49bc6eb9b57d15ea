// Scheduler: requests that are parked where blocks run out (parking.h), and return. Which ones is the policy's matter.
//
//   relieve()             a request of the step has found no blocks: it waits, and perhaps one leaves
//   let_paused_leave()    one that waits or is parked has no room: one that is paused leaves
//   choose_who_returns()  at the beginning of a step: the one that takes its blocks again, if there is room
//   move_blocks()         then: writes or reads some blocks of the one that leaves or returns
//   forget_parked()       after its end: its file is free again
//
// While a request is away, all tokens of its session are pending. So whatever becomes of it, the session is whole:
// where a file fails or the host cancels, its tokens stay, and evaluating them gives the same again.
#include <algorithm>
#include <utility>

#include "engine/scheduler.h"

namespace qinfer::engine {
namespace {

/// The part of a step's time in which blocks are moved while others decode.
constexpr double kPart = 0.5;
/// How long a request waits where other sessions of the cache have all blocks: 10 s. Sessions of requests that have
/// just ended are among them, until the host frees them.
constexpr std::uint64_t kPatience = 10'000'000'000;

Status no_room_again() {
  return error(
      Code::kv_full,
      "for {} s there was no room for the blocks of a parked request, which other sessions of the KV cache hold: "
      "the tokens made so far stay, and are pending",
      kPatience / 1'000'000'000);
}

}  // namespace

/// Whether a row that was refused blocks can wait for some. The one that leaves may have a row in this step, too.
bool Scheduler::relieve(Row& row, std::uint64_t time) {
  if (!parks()) return false;
  const Lock lock(mutex_);
  const schedule::Policy::Relief relief = policy_.relieve(row.request->id_);
  if (relief.leaves != 0) begin_to_leave(relief.leaves);
  if (relief.is_coming) row.request->short_since_.reset();
  row.skipped = relief.is_coming || is_patient(*row.request, time);
  row.evaluates = row.evaluates && !row.skipped;
  return row.skipped;
}

void Scheduler::begin_to_leave(std::uint64_t id) {
  mover_ = find(requests_, id);
  mover_->slot_ = parking_->take_slot();
  mover_->is_here_ = false;
  leaves_ = true;
}

/// One that waits, or is parked, has no room: nothing of a paused request need be here.
void Scheduler::let_paused_leave() {
  if (!parks() || mover_ != nullptr) return;
  if (const std::optional<std::uint64_t> id = policy_.make_room()) begin_to_leave(*id);
}

/// Of one that no other request can help.
bool Scheduler::is_patient(Request& request, std::uint64_t time) {
  if (!request.short_since_) request.short_since_ = time;
  return time - std::min(*request.short_since_, time) < kPatience;
}

void Scheduler::note_holdings() {
  for (const Row& row : rows_)
    if (!row.request->ended_) policy_.holds(row.request->id_, taken_by(*row.request));
}

void Scheduler::choose_who_returns(std::uint64_t time) {
  if (!parks() || mover_ != nullptr || policy_.n_parked() == 0) return;
  const std::optional<std::uint64_t> id = policy_.next_to_return(held_by_others());
  if (!id) return let_paused_leave();
  const std::shared_ptr<Request> request = find(requests_, *id);
  if (make_place(*request, time)) {
    mover_ = request;
    leaves_ = false;
  }
}

/// Takes the blocks of a parked request. False: there were none, or it has ended.
bool Scheduler::make_place(Request& request, std::uint64_t time) {
  Code code = Code::state;
  if (!request.session_in_use_->exchange(true)) {
    Session& session = request.session();
    if (request.generation().check().ok()) code = Parking::make_place(session);
    request.session_in_use_->store(false);
  }
  if (code == Code::ok) {
    request.short_since_.reset();
    return true;
  }
  policy_.stay_parked(request.id_);
  if (code == Code::state) {
    end(request, Status::fixed(Code::state, "the session of a parked request was used by another call"));
  } else if (policy_.n_here() == 0 && !is_patient(request, time)) {  // those that are here will give blocks back
    end(request, no_room_again());
  }
  return false;
}

/// A slice of the step. Returns how long it took.
std::uint64_t Scheduler::move_blocks() {
  if (mover_ == nullptr) return 0;
  const std::shared_ptr<Request> mover = mover_;
  const std::uint64_t begin = now();
  const auto most = static_cast<std::uint64_t>(static_cast<double>(options_.step_ns) * kPart);
  if (leaves_) {
    const Lock lock(mutex_);
    policy_.holds(mover->id_, needed_by(*mover));
  }
  note_moved(*mover, move_some(*mover, begin + std::min(most, UINT64_MAX - begin)));
  if (mover->is_here_ && mover->slot_) parking_->free_slot(*std::exchange(mover->slot_, std::nullopt));
  return now() - begin;
}

/// True: it has left, or is back.
Result<bool> Scheduler::move_some(Request& request, std::uint64_t until) {
  if (request.session_in_use_->exchange(true))
    return Status::fixed(Code::state, "the session of a parked request is in use by another call");
  struct Release {
    std::atomic<bool>& in_use;
    ~Release() { in_use.store(false); }
  } const release{*request.session_in_use_};
  const auto is_over = [this, until] { return now() >= until; };
  Session& session = request.session();
  const auto move = [&]() -> Result<bool> {
    QINFER_TRY(request.generation().check());
    return leaves_ ? parking_->leave(*request.slot_, session, is_over)
                   : parking_->come_back(*request.slot_, session, is_over);
  };
  Result<bool> moved = move();
  if (!moved.ok()) session.forget_everything();  // others wait for its blocks
  return moved;
}

void Scheduler::note_moved(Request& request, Result<bool> moved) {
  const Lock lock(mutex_);
  if (!moved.ok()) {
    end(request, moved.take_status());
    return;
  }
  if (!moved.value()) return;
  mover_.reset();
  if (leaves_) {
    policy_.parked(request.id_);
    ++stats_.n_parked;
    return;
  }
  request.is_here_ = true;
  policy_.returned(request.id_);
}

/// What has ended while it was not here, or on its way. Its session is all pending then, or as if nothing had been.
void Scheduler::forget_parked(Request& request) {
  if (!request.slot_) return;
  parking_->free_slot(*std::exchange(request.slot_, std::nullopt));
  if (request.session_in_use_->exchange(true)) return;
  Session& session = request.session();
  if (session.keys().evaluated() == 0) session.forget_everything();
  request.session_in_use_->store(false);
}

}  // namespace qinfer::engine
