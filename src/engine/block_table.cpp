// See block_table.h.
#include "engine/block_table.h"

#include <algorithm>

#include "base/checked.h"
#include "engine/layout.h"

namespace qinfer::engine {

Status BlockTable::open(kv::BlockPool& pool, std::uint32_t window, std::span<std::uint32_t> entries) {
  if (pool.is_contiguous()) {
    QINFER_ASSIGN(range_, pool.reserve_range(entries.size()));
  }
  pool_ = &pool;
  window_ = window;
  entries_ = entries;
  return Status();
}

BlockTable::~BlockTable() {
  if (pool_ == nullptr) return;
  give_back_unused(0);
  if (range_.data() != nullptr) pool_->release_range(range_);
}

KvView BlockTable::view() const {
  if (range_.data() != nullptr) return {range_.data(), nullptr};
  return {pool_->arena(), entries_.data()};
}

std::size_t BlockTable::first_seen(std::uint32_t window, std::uint32_t block_tokens, std::size_t position) {
  if (window == 0 || position <= window) return 0;
  return (position - window) / block_tokens;
}

bool BlockTable::reaches_back_from(std::size_t position) const {
  return first_position() <= (window_ == 0 || position < window_ ? 0 : position - window_ + 1);
}

void BlockTable::begin_at(std::size_t position) {
  begin_ = position;
  first_ = end_ = position / layout().block_tokens;
}

void BlockTable::leave() {
  left_at_ = first_position();
  give_back_unused(0);
}

std::size_t BlockTable::first_position() const { return std::max(first_ * layout().block_tokens, begin_); }

std::uint32_t BlockTable::partial_block(std::size_t position) const {
  const std::uint32_t size = layout().block_tokens;
  return position % size == 0 ? kNoBlock : entries_[position / size];
}

std::size_t BlockTable::blocks_to_promise(std::size_t position, std::size_t n, std::size_t chunk,
                                          std::size_t earlier) const {
  const std::size_t needed = layout().blocks_for(position + n);
  std::size_t more = needed > end_ ? needed - end_ : 0;
  if (window_ != 0) {
    // `most` blocks are held at once at most. Blocks held now that no other session holds become free when the window
    // leaves them, and are promised again then: only the difference has to be promised now.
    const std::uint64_t most = blocks_of_session(layout(), window_, position + n, std::min(n, chunk));
    const std::size_t lone = end_ - first_ - pool_->count_shared(held());
    more = std::min<std::size_t>(more, most > lone ? most - lone : 0);
  }
  const std::uint32_t partial = partial_block(position);
  const bool copy = n > 0 && partial != kNoBlock && pool_->holders(partial) > 1 + earlier;
  return more + (copy ? 1 : 0);
}

bool BlockTable::obtain_promise(std::size_t blocks, std::size_t position, std::size_t n) {
  if (!pool_->promise(blocks)) return false;
  promised_ += blocks;
  const std::size_t needed = layout().blocks_for(position + n);
  wanted_ = (needed > end_ ? needed - end_ : 0) + 1;  // one more for a copy
  return true;
}

bool BlockTable::take(std::span<std::uint32_t> out) {
  if (promised_ < out.size()) return pool_->take(out);
  pool_->take_promised(out);
  promised_ -= out.size();
  wanted_ -= std::min(wanted_, out.size());
  return true;
}

bool BlockTable::map(std::size_t first, std::size_t n, bool merged) {
  return range_.data() == nullptr || pool_->map(range_, first, entries_.subspan(first, n), merged);
}

void BlockTable::give_back_from(std::size_t n) {
  n = std::max(n, first_);
  if (n >= end_) return;
  const std::uint64_t bytes = layout().block_bytes();
  if (range_.data() != nullptr) range_.unmap(n * bytes, (end_ - n) * bytes);
  pool_->give_back(entries_.subspan(n, end_ - n));
  end_ = n;
  note_held();
}

void BlockTable::give_back_before(std::size_t first) {
  first = std::min(first, end_);
  if (first <= first_) return;
  const std::uint64_t bytes = layout().block_bytes();
  if (range_.data() != nullptr) range_.unmap(first_ * bytes, (first - first_) * bytes);
  promised_ += pool_->give_back(entries_.subspan(first_, first - first_), wanted_ - std::min(wanted_, promised_));
  std::fill(entries_.begin() + static_cast<std::ptrdiff_t>(first_),
            entries_.begin() + static_cast<std::ptrdiff_t>(first), kNoBlock);
  first_ = first;
  note_held();
}

/// Copy on write. The first of the new tokens may go to a block that holds earlier tokens and that other sessions hold
/// too: then its entry becomes a copy of it.
Code BlockTable::own_partial(std::size_t position) {
  const std::uint32_t partial = partial_block(position);
  if (partial == kNoBlock || pool_->make_writable(partial)) return Code::ok;
  std::uint32_t spare = 0;
  if (!take({&spare, 1})) return Code::kv_full;
  const std::size_t at = position / layout().block_tokens;
  const std::byte* from = view().k_tile(layout(), 0, 0, static_cast<std::uint32_t>(at) * layout().tiles_per_block());
  Code code = pool_->fill(spare, from);
  if (code == Code::ok && range_.data() != nullptr && !pool_->map(range_, at, {&spare, 1}, false))
    code = Code::no_memory;
  if (code == Code::ok) std::swap(entries_[at], spare);
  pool_->give_back({&spare, 1});
  return code;
}

Code BlockTable::extend(std::size_t position, std::size_t n) {
  if (n == 0) return Code::ok;
  give_back_before(first_seen(position));
  const std::size_t before = end_, needed = std::max<std::size_t>(layout().blocks_for(position + n), before);
  const std::span<std::uint32_t> more = entries(before, needed);
  if (!take(more)) return Code::kv_full;
  end_ = needed;
  note_held();
  Code code = pool_->ensure_backed(more);
  if (code == Code::ok && !map(before, needed - before, false)) code = Code::no_memory;
  if (code == Code::ok) code = own_partial(position);
  if (code != Code::ok) give_back_from(before);
  return code;
}

void BlockTable::give_back_unused(std::size_t position) {
  give_back_from(layout().blocks_for(position));
  if (promised_ != 0) pool_->withdraw(promised_);
  promised_ = wanted_ = 0;
  if (end_ == first_) first_ = end_ = std::min<std::size_t>(first_, layout().blocks_for(position));
  if (position == 0) begin_ = 0;
}

void BlockTable::give_back_unseen(std::size_t position) { give_back_before(first_seen(position)); }

bool BlockTable::share(const BlockTable& other) {
  std::copy(other.entries_.begin(), other.entries_.begin() + static_cast<std::ptrdiff_t>(other.end_), entries_.begin());
  pool_->share(other.held());
  first_ = other.first_;
  end_ = other.end_;
  begin_ = other.begin_;
  note_held();
  return map(first_, end_ - first_, true);
}

bool BlockTable::accept(std::size_t first, std::size_t end) {
  if (first_ == end_) first_ = end_ = first;
  const std::size_t before = end_;
  end_ = end;
  note_held();
  if (map(first, end - first, true)) return true;
  give_back_from(before);
  return false;
}

const char* BlockTable::find_inconsistency(std::size_t n_evaluated) const {
  if (promised_ != 0) return "promises were not withdrawn";
  if (end_ != layout().blocks_for(n_evaluated)) return "a table holds more or fewer blocks than its tokens need";
  if (!reaches_back_from(n_evaluated)) return "a table lacks blocks that the next token sees";
  if (window_ == 0 && first_ != 0) return "a table without a window does not begin with its first block";
  for (const std::uint32_t block : held())
    if (block == kNoBlock || pool_->holders(block) == 0) return "a table holds a block that is not taken";
  return nullptr;
}

}  // namespace qinfer::engine
