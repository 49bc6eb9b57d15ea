// See common/routes.h. These are the same instructions for every kernel set, so that equal outputs of a router mean
// equal choices and weights whatever the CPU.
#include "common/routes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/math.h"

namespace qinfer::kernels {
namespace {

using Candidate = std::pair<float, std::int32_t>;  // a probability and its expert

/// Where the parts of MoeBuffers::routes begin.
struct Parts {
  std::uint64_t logits, chosen, weights, rows, slots, lost, counts, starts, bytes;
  std::int64_t ld;

  Parts(std::uint64_t n, std::uint64_t experts, std::uint64_t top_k, bool shared) {
    std::uint64_t at = 0;
    const auto take = [&at](std::uint64_t size) {
      const std::uint64_t begin = at;
      at = round_up(at + size, 64);
      return begin;
    };
    ld = static_cast<std::int64_t>(experts + (shared ? 1 : 0));
    logits = take(n * static_cast<std::uint64_t>(ld) * sizeof(float));
    chosen = take(n * top_k * sizeof(std::int32_t));
    weights = take(n * top_k * sizeof(float));
    rows = take((n * top_k + (shared ? n : 0)) * sizeof(RoutedRow));
    slots = take((std::min(experts, n * top_k) + 1) * sizeof(ExpertSlot));
    lost = take(n * sizeof(std::int32_t));
    counts = take(2 * sizeof(std::int32_t));
    starts = take((experts + 1) * sizeof(std::int32_t));
    bytes = at;
  }
};

Parts parts_of(const MoeArgs& args) {
  return {static_cast<std::uint64_t>(args.n), args.experts, args.top_k, args.has_shared()};
}

/// The experts of one row, and their weights.
void choose(const MoeArgs& args, const Routes& routes, std::int64_t row, std::byte* scratch) {
  const auto experts = static_cast<std::int32_t>(args.experts), top_k = static_cast<std::int32_t>(args.top_k);
  const float* logits = routes.logits + row * routes.ld;
  std::int32_t* chosen = routes.chosen + row * top_k;
  float* weights = routes.weights + row * top_k;
  float largest = -std::numeric_limits<float>::infinity();
  bool finite = true;
  for (std::int32_t e = 0; e < experts; ++e) {
    finite = finite && std::isfinite(logits[e]);
    largest = std::max(largest, logits[e]);
  }
  if (!finite) {
    std::fill_n(chosen, top_k, -1);
    return;
  }
  auto* probabilities = reinterpret_cast<float*>(scratch);
  float sum = 0;
  for (std::int32_t e = 0; e < experts; ++e) probabilities[e] = exp_f32(logits[e] - largest);
  for (std::int32_t e = 0; e < experts; ++e) sum += probabilities[e];
  for (std::int32_t e = 0; e < experts; ++e) probabilities[e] /= sum;
  const std::uint64_t used = round_up(args.experts * sizeof(float), alignof(std::max_align_t));
  choose_largest(probabilities, experts, top_k, scratch + used, chosen);
  float total = 0;
  for (std::int32_t i = 0; i < top_k; ++i) total += weights[i] = probabilities[chosen[i]];
  if (!args.normalise) return;
  for (std::int32_t i = 0; i < top_k; ++i) weights[i] /= total;
}

/// One more slot, of all rows: each with the sigmoid of its own output of the shared router.
void list_shared(const MoeArgs& args, const Routes& routes, ExpertSlot& slot) {
  slot.expert = static_cast<std::int32_t>(args.experts);
  slot.count = static_cast<std::int32_t>(args.n);
  for (std::int32_t row = 0; row < slot.count; ++row) {
    const float logit = routes.logits[row * routes.ld + args.experts];
    routes.rows[slot.first + row] = {row, 1.0f / (1.0f + exp_f32(-logit)), false};
  }
}

/// The slots of a batch, each with its rows, from what the rows chose.
void make_list(const MoeArgs& args, const Routes& routes) {
  const auto n = static_cast<std::int32_t>(args.n), top_k = static_cast<std::int32_t>(args.top_k);
  std::int32_t* starts = routes.starts;
  std::fill_n(starts, args.experts + 1, 0);
  std::int32_t lost = 0;
  for (std::int32_t row = 0; row < n; ++row) {
    const std::int32_t* chosen = routes.chosen + std::int64_t{row} * top_k;
    if (chosen[0] < 0) {
      routes.lost[lost++] = row;
      continue;
    }
    for (std::int32_t i = 0; i < top_k; ++i) ++starts[chosen[i] + 1];
  }
  // Numbers of rows become slots and, added up, the places of their first rows.
  std::int32_t slots = 0, panels = 0;
  for (std::uint32_t e = 0; e < args.experts; ++e) {
    const std::int32_t count = starts[e + 1];
    starts[e + 1] += starts[e];
    if (count == 0) continue;
    routes.slots[slots++] = {static_cast<std::int32_t>(e), starts[e], count, panels};
    panels += (count + static_cast<std::int32_t>(kPanelRows) - 1) / static_cast<std::int32_t>(kPanelRows);
    if (args.usage != nullptr)  // a host may read them meanwhile
      std::atomic_ref(args.usage[e]).fetch_add(static_cast<std::uint64_t>(count), std::memory_order_relaxed);
  }
  if (args.has_shared()) {
    routes.slots[slots] = {0, starts[args.experts], 0, panels};
    list_shared(args, routes, routes.slots[slots++]);
  }
  for (std::int32_t row = 0; row < n; ++row) {
    const std::int32_t* chosen = routes.chosen + std::int64_t{row} * top_k;
    if (chosen[0] < 0) continue;
    for (std::int32_t i = 0; i < top_k; ++i)
      routes.rows[starts[chosen[i]]++] = {row, routes.weights[std::int64_t{row} * top_k + i], i == 0};
  }
  routes.counts[0] = slots;
  routes.counts[1] = lost;
}

}  // namespace

Routes::Routes(const MoeArgs& args) {
  const Parts parts = parts_of(args);
  std::byte* base = args.buffers.routes;
  logits = reinterpret_cast<float*>(base + parts.logits);
  ld = parts.ld;
  chosen = reinterpret_cast<std::int32_t*>(base + parts.chosen);
  weights = reinterpret_cast<float*>(base + parts.weights);
  rows = reinterpret_cast<RoutedRow*>(base + parts.rows);
  slots = reinterpret_cast<ExpertSlot*>(base + parts.slots);
  lost = reinterpret_cast<std::int32_t*>(base + parts.lost);
  counts = reinterpret_cast<std::int32_t*>(base + parts.counts);
  starts = reinterpret_cast<std::int32_t*>(base + parts.starts);
}

std::uint64_t routes_bytes(const Shape& shape) {
  return Parts(shape.batch, shape.experts, shape.top_k, shape.shared_width != 0).bytes;
}

std::uint64_t most_routed_panels(const Shape& shape) {
  const std::uint64_t rows = shape.routed_rows();
  return (rows + std::min<std::uint64_t>(shape.experts, rows) * (kPanelRows - 1)) / kPanelRows;
}

std::uint64_t choice_bytes(std::uint32_t experts) {
  return round_up(round_up(experts * sizeof(float), alignof(std::max_align_t)) + experts * sizeof(Candidate), 64);
}

std::int64_t choice_units(const MoeArgs& args) { return (args.n + kChoiceRows - 1) / kChoiceRows; }
std::int64_t list_units(const MoeArgs& args) { return args.n <= kChoiceRows ? 0 : 1; }

void choose_experts(const MoeArgs& args, Slice slice, std::byte* scratch) {
  const Routes routes(args);
  const std::int64_t end = std::min(slice.end * kChoiceRows, args.n);
  for (std::int64_t row = slice.begin * kChoiceRows; row < end; ++row) choose(args, routes, row, scratch);
  if (args.n <= kChoiceRows && slice.begin < slice.end) make_list(args, routes);
}

void list_rows(const MoeArgs& args, Slice slice) {
  if (slice.begin < slice.end) make_list(args, Routes(args));
}

void choose_largest(const float* values, std::int32_t n, std::int32_t top_k, std::byte* scratch, std::int32_t* chosen) {
  auto* candidates = reinterpret_cast<Candidate*>(scratch);
  for (std::int32_t i = 0; i < n; ++i) candidates[i] = {values[i], i};
  const auto before = [](const Candidate& a, const Candidate& b) { return a.first > b.first; };
  // torch changes from one algorithm to the other here.
  if (std::int64_t{top_k} * 64 <= n) {
    std::partial_sort(candidates, candidates + top_k, candidates + n, before);
  } else {
    std::nth_element(candidates, candidates + top_k - 1, candidates + n, before);
  }
  for (std::int32_t i = 0; i < top_k; ++i) chosen[i] = candidates[i].second;
  std::sort(chosen, chosen + top_k);
}

}  // namespace qinfer::kernels
