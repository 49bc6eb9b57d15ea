// Prompts that begin alike, of which the scheduler has what they share evaluated once.
//
// Where the cache keeps prefixes, a prompt need not be evaluated as far as it begins like one that was. So requests of
// which more is known come first, and one whose prompt begins like that of a running request, whose evaluation has not
// come so far, waits for it: n choices of one prompt, or users with the same system prompt, evaluate it once.
#include <algorithm>

#include "engine/scheduler.h"

namespace qinfer::engine {

/// For requests that have come since the last step.
void Scheduler::look_up_beginnings() {
  for (std::size_t i = requests_.size(); i > 0; --i) {
    Request& request = *requests_[i - 1];
    if (request.is_reservation()) continue;
    if (request.looked_up_) break;
    request.looked_up_ = true;
    if (request.session_in_use_->exchange(true)) continue;
    Session& session = request.session();
    const std::size_t known = session.evaluated() + session.keys().count_adoptable(session.tokens(), 1);
    request.resident_ = static_cast<std::uint32_t>(known);
    request.session_in_use_->store(false);
    for (const auto& running : requests_)
      if (running->running_) compare_beginnings(request, *running);
  }
}

/// What the waiting request will have when the running one's prompt is evaluated.
void Scheduler::compare_beginnings(Request& waiting, const Request& running) const {
  if (waiting.is_reservation() || running.is_reservation()) return;
  const Session &one = waiting.session(), &other = running.session();
  if (!one.keys().has_prefixes_of(other.keys()) || other.pending() == 0) return;
  const std::span<const std::int32_t> a = one.tokens(), b = other.tokens();
  const auto end = std::mismatch(a.begin(), a.end() - 1, b.begin(), b.end()).first;
  const auto blocks = static_cast<std::uint32_t>((end - a.begin()) / cache_->block_tokens());
  const std::uint32_t tokens = blocks * cache_->block_tokens();
  if (tokens <= std::max(waiting.resident_, waiting.like_ != 0 ? waiting.like_tokens_ : 0)) return;
  waiting.like_ = running.id_;
  waiting.like_tokens_ = tokens;
}

schedule::Policy::Has Scheduler::what_it_has(Requests& requests, Request& waiting) const {
  if (waiting.is_reservation()) return {};
  if (waiting.like_ != 0) {
    const auto like = lower_bound(requests, waiting.like_);
    const bool is_there = like != requests.end() && (*like)->id_ == waiting.like_ && !(*like)->is_paused_;
    const bool is_done = is_there && (*like)->session().evaluated() >= waiting.like_tokens_;
    if (is_done) waiting.resident_ = waiting.like_tokens_;
    if (is_done || !is_there) waiting.like_ = 0;
  }
  return {waiting.resident_, held_by(waiting), waiting.like_ != 0};
}

}  // namespace qinfer::engine
