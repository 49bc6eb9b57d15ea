// The buffers of a memory plan: each by name, with its place, shape, type and lifetime, as qinfer_model_plan_map()
// prints them. The functions that compute the engine's offsets (layout.h) record them while they do, so there is no
// second computation that could disagree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "model/spec.h"

namespace qinfer::engine {

/// When the contents of a scratch buffer are needed: from the first to the last of these steps, in every layer.
enum class Step : std::uint8_t { embed, qkv, attention, output, ffn, head };
struct Lifetime {
  Step first = Step::embed, last = Step::head;
  bool within_steps = false;  ///< a workspace: its contents are not needed after the step that wrote them
};
inline constexpr Lifetime kWholePass{};
inline constexpr Lifetime kWorkspace{Step::qkv, Step::head, true};

struct PlannedBuffer {
  std::string name;
  std::uint64_t offset = 0, bytes = 0;
  std::vector<std::uint64_t> shape;
  std::string dtype;  ///< "f32", or "bytes" where it has no elements
  Lifetime lifetime;  ///< of scratch; other regions live as long as what they belong to
};

/// Memory that is taken in one piece: its buffers in ascending order of their offsets.
struct PlannedRegion {
  std::string name;
  std::string belongs_to;  ///< "model", "cache", "session"
  std::uint64_t bytes = 0;
  std::vector<PlannedBuffer> buffers;
};

/// The whole plan.
struct PlannedRegions {
  std::vector<PlannedRegion> regions;

  /// As JSON with the model's sizes; members as in the structs, lifetimes as names of steps.
  std::string to_json(const model::ModelSpec& spec) const;
};

/// What a buffer is, as the function that takes room for it states it.
struct BufferNote {
  std::string_view name;
  std::vector<std::uint64_t> shape;
  std::string_view dtype = "f32";
  Lifetime lifetime = kWholePass;
};

/// Hands out consecutive ranges, each on a cache line of its own, and records them in a region if one is given.
class Cursor {
 public:
  explicit Cursor(PlannedRegion* region = nullptr, std::uint64_t at = 0) : region_(region), at_(at) {}
  std::uint64_t take(std::uint64_t bytes, const BufferNote& note) {
    const std::uint64_t begin = at_;
    if (region_ != nullptr && bytes != 0)
      region_->buffers.push_back(
          {std::string(note.name), begin, bytes, note.shape, std::string(note.dtype), note.lifetime});
    at_ = round_up(at_ + bytes, 64);
    return begin;
  }
  void align(std::uint64_t unit) { at_ = round_up(at_, unit); }
  std::uint64_t at() const { return at_; }

 private:
  PlannedRegion* region_;
  std::uint64_t at_;
};

}  // namespace qinfer::engine
