// See rope_table.h.
#include "engine/rope_table.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "model/rope.h"
#include "platform/thread.h"

namespace qinfer::engine {
namespace {

std::uint64_t bytes_per_token(const model::ModelSpec& spec) { return spec.rope_values() * sizeof(float); }

}  // namespace

Result<std::uint64_t> RopeTable::bytes_of(const model::ModelSpec& spec, std::uint64_t tokens) {
  const std::uint64_t bytes = bytes_per_token(spec) * tokens;
  if (bytes <= kMaxBytes) return bytes;
  return error_at(Code::no_memory, static_cast<std::int64_t>(bytes),
                  "\"max_position_embeddings\" is {}: the RoPE table for {} tokens has {} bytes, at most {} are "
                  "supported; a max_tokens of up to {} fits",
                  spec.context_tokens, tokens, bytes, kMaxBytes, kMaxBytes / bytes_per_token(spec));
}

Status RopeTable::reserve(const model::ModelSpec& spec, const platform::Allocator& allocator) {
  if (spec.n_ropes() == 0) return Status();
  for (std::uint32_t i = 0; i < spec.n_ropes(); ++i) values_before_.push_back(spec.rope_values(i));
  reserved_ = std::min<std::uint64_t>(spec.context_tokens, kMaxBytes / bytes_per_token(spec));
  if (!takes_all_at_once(allocator)) {
    QINFER_ASSIGN(range_, platform::AddressRange::reserve(reserved_ * bytes_per_token(spec), "the RoPE table"));
    first_ = reinterpret_cast<float*>(range_.data());
    return Status();
  }
  QINFER_ASSIGN(const std::uint64_t bytes, bytes_of(spec, spec.context_tokens));
  QINFER_ASSIGN(memory_, platform::Buffer::allocate(allocator, bytes, "the RoPE table"));
  first_ = memory_.as<float>();
  bytes_ = bytes;
  return Status();
}

Status RopeTable::compute(const model::ModelSpec& spec, std::uint32_t tokens, Runtime& runtime) {
  const platform::ScopedFloatEnvironment environment;
  const std::uint32_t filled = rows_;  // for the lambdas, into which clang does not follow the lock
  std::vector<std::vector<float>> frequencies;
  frequencies.reserve(spec.ropes.size());
  for (const model::RopeSpec& rope : spec.ropes) frequencies.push_back(model::rope_frequencies(rope, rope.head_dim));
  const std::uint64_t page = platform::page_bytes();
  for (std::uint32_t i = 0; i < spec.n_ropes() && memory_.size() == 0; ++i) {
    const std::uint64_t row = std::uint64_t{spec.ropes[i].head_dim} * sizeof(float);
    const std::uint64_t at = values_before_[i] * reserved_ * sizeof(float);
    const std::uint64_t begin = (at + filled * row) / page * page;
    const std::uint64_t end = std::min(round_up(at + tokens * row, page), round_up(range_.size(), page));
    if (!range_.commit(begin, end - begin))
      return error_at(Code::no_memory, static_cast<std::int64_t>(end - begin),
                      "no memory for the RoPE table ({} bytes)", end - begin);
  }
  const auto fill = [&](std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = 0; i < spec.n_ropes(); ++i)
      model::fill_rope_table(spec.ropes[i], frequencies[i], first, last, first_ + values_before_[i] * reserved_);
  };
  // With all threads if they have nothing else to do: an evaluation may take long.
  if (!runtime.eval_mutex().try_lock()) {
    fill(filled, tokens);
    return Status();
  }
  const Lock lock(runtime.eval_mutex(), std::adopt_lock);
  ThreadTeam& team = runtime.team();
  team.run_parts([&](std::int32_t worker) {
    const auto part = [&](std::int32_t i) {
      return filled + static_cast<std::uint32_t>(std::uint64_t{tokens - filled} * static_cast<std::uint64_t>(i) /
                                                 static_cast<std::uint64_t>(team.size()));
    };
    fill(part(worker), part(worker + 1));
  });
  return Status();
}

}  // namespace qinfer::engine
