// The table of all kernels, and the choice of a kernel set by name and CPU.
#include "base/checked.h"
#include "kernel_set.h"
#include "reference/reference.h"
#ifdef QINFER_HAVE_AMX
#include "amx/amx.h"
#endif
#ifdef QINFER_HAVE_AVX512
#include "avx512/avx512.h"
#endif

namespace qinfer::kernels {
namespace {

constexpr KernelInfo kTable[] = {
#define QINFER_KERNEL(operation, set, isa, rows, outputs, dtypes) {#operation, #set, isa, rows, outputs, dtypes},
#include "kernels.inc"
#undef QINFER_KERNEL
};

constexpr KernelSetInfo kSets[] = {
#ifdef QINFER_HAVE_AVX512
    {"avx512_fp16", "avx512f avx512bw avx512dq avx512vl avx512_fp16", false},
    {"avx512", "avx512f avx512bw avx512dq avx512vl", true},
#endif
#ifdef QINFER_HAVE_AMX
    {"amx", "avx512f avx512bw avx512dq avx512vl avx512_bf16 amx_tile amx_bf16", false, true},
    {"amx_mixed", "avx512f avx512bw avx512dq avx512vl avx512_bf16 amx_tile amx_bf16", false, true, false},
#endif
    {"reference", "", true},
};

using Getter = const KernelSet& (*)();
constexpr Getter kGetters[] = {
#ifdef QINFER_HAVE_AVX512
    avx512::fp16_kernel_set, avx512::kernel_set,
#endif
#ifdef QINFER_HAVE_AMX
    amx::kernel_set,         amx::mixed_kernel_set,
#endif
    reference::kernel_set,
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

std::span<const KernelInfo> kernel_table() { return kTable; }

const KernelSet* find_kernel_set(std::string_view name, std::string_view cpu_features, bool exact) {
  for (std::size_t i = 0; i < std::size(kSets); ++i) {
    if (name.empty() ? kSets[i].by_name : name != kSets[i].name) continue;
    if (exact && !kSets[i].exact) continue;
    if (has_all(cpu_features, kSets[i].needs)) return &kGetters[i]();
  }
  return nullptr;
}

std::span<const KernelSetInfo> kernel_sets() { return kSets; }

}  // namespace qinfer::kernels
