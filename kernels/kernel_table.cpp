// The table of all kernel sets, and the choice of a set by name and CPU. A new set has one row in kSets.
#include "base/checked.h"
#include "kernel_set.h"
#include "reference/reference.h"
#ifdef QINFER_HAVE_AMX
#include "amx/amx.h"
#endif
#ifdef QINFER_HAVE_AVX512
#include "avx512/avx512.h"
#endif
#ifdef QINFER_HAVE_AVX2
#include "avx2/avx2.h"
#endif
#if defined(QINFER_HAVE_AVX2) || defined(QINFER_HAVE_NEON)
#include "highway/highway.h"
#endif

namespace qinfer::kernels {
namespace {

Multiplier f32_fma(Encoding) { return Multiplier::f32_fma; }
#ifdef QINFER_HAVE_AVX512
/// For plain weights, which all are bf16 in this set, quantised ones and caches of bf16.
Multiplier bf16_dot_for_bf16(Encoding encoding) {
  return encoding == Encoding::bf16 || !is_plain(encoding) ? Multiplier::bf16_dot : Multiplier::f32_fma;
}
/// For f16 weights and values; quantised weights as below.
Multiplier f16_fma_for_f16(Encoding encoding) {
  if (!is_plain(encoding)) return Multiplier::int16_dot;
  return encoding == Encoding::f16 ? Multiplier::f16_fma : Multiplier::f32_fma;
}
#endif
#if defined(QINFER_HAVE_AVX2) || defined(QINFER_HAVE_AVX512)
/// For quantised weights.
Multiplier int16_dot_for_quantised(Encoding encoding) {
  return is_plain(encoding) ? Multiplier::f32_fma : Multiplier::int16_dot;
}
#endif
#ifdef QINFER_HAVE_AMX
Multiplier int16_tiles_for_quantised(Encoding encoding) {
  return is_plain(encoding) ? f16_fma_for_f16(encoding) : Multiplier::int16_tiles;
}
Multiplier bf16_tiles(Encoding) { return Multiplier::bf16_tiles; }
#endif

/// In the order in which they are chosen, which follows from measurements: docs/performance.md has them, by CPU.
constexpr KernelSetRow kSets[] = {
#ifdef QINFER_HAVE_AMX
    {.name = "amx",
     .needs = "avx512f avx512bw avx512dq avx512vl avx512_bf16 amx_tile amx_bf16",
     .get = amx::kernel_set,
     .exact = false,
     .chosen_for = ChosenFor::held_plain,
     .held_besides = Encoding::q8_0,  // making bf16 of fewer bits takes longer than reading them
     .packs_unnamed = true,
     .numerics = {.multiplier = bf16_tiles},
     .weight_types = "bf16"},
#endif
#if defined(QINFER_HAVE_AVX512) && defined(QINFER_HAVE_AMX)
    {.name = "amx_int16",
     .needs = "avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_fp16 amx_tile amx_bf16",
     .get = avx512::int16_tiles_kernel_set,
     .exact = false,
     .chosen_for = ChosenFor::quantised,
     .numerics = {.multiplier = int16_tiles_for_quantised}},
#endif
#ifdef QINFER_HAVE_AVX512
    {.name = "avx512_fp16",
     .needs = "avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_fp16",
     .get = avx512::fp16_kernel_set,
     .exact = false,
     .numerics = {.multiplier = f16_fma_for_f16}},
    {.name = "avx512_bf16",
     .needs = "avx512f avx512bw avx512dq avx512vl avx512_bf16",
     .get = avx512::bf16_kernel_set,
     .exact = false,
     .chosen_for = ChosenFor::held_exactly,
     .numerics = {.multiplier = bf16_dot_for_bf16},
     .weight_types = "bf16"},
    {.name = "avx512_int16",
     .needs = "avx512f avx512bw avx512dq avx512vl avx512_vnni",
     .get = avx512::int16_kernel_set,
     .exact = false,
     .numerics = {.multiplier = int16_dot_for_quantised}},
    {.name = "avx512",
     .needs = "avx512f avx512bw avx512dq avx512vl",
     .get = avx512::kernel_set,
     .exact = true,
     .numerics = {.multiplier = f32_fma}},
#endif
#ifdef QINFER_HAVE_AVX2
    {.name = "avx2_int16",
     .needs = "avx2 fma f16c bmi1 bmi2",
     .get = avx2::int16_kernel_set,
     .exact = false,
     .numerics = {.multiplier = int16_dot_for_quantised}},
    {.name = "avx2",
     .needs = "avx2 fma f16c bmi1 bmi2",
     .get = avx2::kernel_set,
     .exact = true,
     .numerics = {.multiplier = f32_fma}},
#endif
#ifdef QINFER_HAVE_NEON
    {.name = "neon", .needs = "asimd", .get = neon::kernel_set, .exact = true, .numerics = {.multiplier = f32_fma}},
#endif
    {.name = "reference",
     .needs = "",
     .get = reference::kernel_set,
     .exact = true,
     .numerics = {.multiplier = f32_fma, .lanes = 16}},
};

/// Takes the first word off a list of words separated by spaces.
std::string_view next_word(std::string_view& words) {
  const std::size_t begin = words.find_first_not_of(' ');
  if (begin == words.npos) return words = {};
  words.remove_prefix(begin);
  const std::string_view word = words.substr(0, words.find(' '));
  words.remove_prefix(word.size());
  return word;
}

bool has_word(std::string_view words, std::string_view wanted) {
  for (std::string_view word = next_word(words); !word.empty(); word = next_word(words))
    if (word == wanted) return true;
  return false;
}

bool has_all(std::string_view features, std::string_view needed) {
  for (std::string_view word = next_word(needed); !word.empty(); word = next_word(needed))
    if (!has_word(features, word)) return false;
  return true;
}

}  // namespace

std::uint64_t layout_bytes(ActivationLayout layout, std::uint64_t n, std::uint64_t width) {
  switch (layout) {
    case ActivationLayout::row_major: return n * width * sizeof(float);
    case ActivationLayout::f32_panels: return round_up(n, kPanelRows) * width * sizeof(float);
    case ActivationLayout::bf16_panels: return round_up(n, kPanelRows) * round_up(width, kPanelFeatures) * 2;
  }
  return 0;
}

std::uint64_t query_width(ActivationLayout layout, std::uint64_t n_heads, std::uint64_t head_dim) {
  return n_heads * (layout == ActivationLayout::row_major ? head_dim : round_up(head_dim, kPanelFeatures));
}

std::span<const KernelSetRow> kernel_sets() { return kSets; }

const KernelSet* find_kernel_set(std::string_view name, std::string_view cpu_features, bool exact) {
  for (const KernelSetRow& row : kSets) {
    if (name.empty() ? row.chosen_for != ChosenFor::all : name != row.name) continue;
    if (exact && !row.exact) continue;
    if (has_all(cpu_features, row.needs)) return &row.get();
  }
  return nullptr;
}

std::vector<const KernelSetRow*> find_preferred_sets(std::string_view cpu_features, bool exact) {
  std::vector<const KernelSetRow*> rows;
  bool best = true;  // so far
  for (const KernelSetRow& row : kSets) {
    if ((exact && !row.exact) || !has_all(cpu_features, row.needs)) continue;
    if (row.chosen_for == ChosenFor::all) {
      best = false;
    } else if (best) {
      rows.push_back(&row);
    }
  }
  return rows;
}

bool needs_tiles(const KernelSetRow& row) { return has_word(row.needs, "amx_tile"); }

}  // namespace qinfer::kernels
