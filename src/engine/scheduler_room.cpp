// How much room in the cache requests hold and need: what the scheduler tells its policy.
//
// It is counted in bytes of blocks where all groups of layers share one budget. Where each has a pool of its own the
// fullest one decides: a number of its blocks counts as that share of the cache's bytes.
#include <algorithm>
#include <cmath>

#include "engine/cache_size.h"
#include "engine/scheduler.h"

namespace qinfer::engine {
namespace {

/// Blocks of a group that no other session holds.
std::uint64_t own_blocks(const Request& request, std::size_t group) {
  const BlockTable& table = request.session().keys().tables()[group];
  if (request.is_reservation()) return table.n_held();  // others adopt what it publishes: then it is not theirs
  if (table.held().empty()) return 0;  // as of most that wait, which are asked about in every step: takes no lock
  return table.held().size() - table.pool().count_shared(table.held());
}

constexpr auto larger = [](std::uint64_t a, std::uint64_t b) { return std::max(a, b); };
constexpr auto smaller = [](std::uint64_t a, std::uint64_t b) { return std::min(a, b); };

}  // namespace

/// Of blocks_of(group) blocks of each group. chosen(a, b): which of two shares counts where pools are their own.
template <typename BlocksOf, typename Chosen>
std::uint64_t Scheduler::room_of(BlocksOf blocks_of, Chosen chosen) const {
  const CacheSize& size = cache_->blueprint().size;
  const bool one_budget = size.groups_share_bytes || cache_->n_groups() == 1;
  std::uint64_t room = 0;
  for (std::size_t g = 0; g < cache_->n_groups(); ++g) {
    const std::uint64_t n = blocks_of(g);
    if (one_budget) {
      room += n * cache_->layout(g).block_bytes();
      continue;
    }
    const double part = static_cast<double>(n) / static_cast<double>(size.blocks[g]);
    const auto share = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(size.bytes)));
    room = g == 0 ? share : chosen(room, share);
  }
  return room;
}

/// For all blocks that it holds at most until it has so many tokens.
std::uint64_t Scheduler::room_for(const Request& request, std::uint64_t tokens) const {
  const Session& session = request.session();
  const Model& model = cache_->model();
  const std::vector<std::uint64_t> blocks =
      session_blocks(model.spec(), cache_->layouts(), std::min<std::uint64_t>(tokens, session.max_tokens()),
                     model.scratch_layout().batch_capacity);
  return room_of([&](std::size_t g) { return blocks[g]; }, larger);
}

/// Of the blocks that no other session holds; in every pool it holds at least that share.
std::uint64_t Scheduler::held_by(const Request& request) const {
  return room_of([&](std::size_t g) { return own_blocks(request, g); }, smaller);
}

/// The same, of the pool in which it holds most.
std::uint64_t Scheduler::taken_by(const Request& request) const {
  return room_of([&](std::size_t g) { return own_blocks(request, g); }, larger);
}

/// Of all its blocks, those that others hold too among them.
std::uint64_t Scheduler::needed_by(const Request& request) const {
  const std::span<const BlockTable> tables = request.session().keys().tables();
  return room_of([&](std::size_t g) { return tables[g].held().size(); }, larger);
}

/// What running requests share with others is others'.
std::uint64_t Scheduler::held_by_others() {
  const auto* const requests = &requests_;
  const auto others = [&, requests](std::size_t g) {
    // Own blocks are counted before used ones: a block that a reservation takes in between is then among the used ones
    // alone, and counts as another's. In the other order it would be own and not used, and room would seem to be there.
    std::uint64_t own = 0;
    for (const auto& request : *requests)
      if (request->running_) own += own_blocks(*request, g);
    const std::uint64_t used = cache_->pool(g).stats().blocks_used;
    return used - std::min(own, used);
  };
  return room_of(others, larger);
}

}  // namespace qinfer::engine
