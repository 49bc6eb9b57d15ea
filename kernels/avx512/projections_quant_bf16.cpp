// Projections with products of bf16 for quantised weights, and for matrices of which some are quantised and some are
// bf16: all multiply the same panels, each by its own inner loops.
#include "avx512/modes.h"
#include "avx512/products.h"

namespace qinfer::kernels::avx512 {
namespace {

/// The loops over plain pairs, called as those over quantised tiles are.
struct PlainPairs {
  static constexpr int tiles_for(int tokens) { return Bf16Sums::tiles_for(tokens); }
  template <int tokens, int tiles>
  static void run(const std::uint32_t* panel, std::int64_t pairs, const TileLines& lines, float* c, std::int64_t ldc) {
    TileGroup group;
    for (int t = 0; t < tiles; ++t) group.tiles[t] = lines.tiles[t], group.next[t] = lines.next[t];
    Bf16Sums::run<tokens, tiles>(panel, pairs, group, c, ldc);
  }
};
constexpr LoopTable<PlainPairs> kPlainPairs;

constexpr Projections kQuant = projections<QuantBf16Mode>();
constexpr SlotKernels kQuantSlots = slot_kernels<QuantBf16Mode>();

}  // namespace

const Projections& quant_bf16_projections() { return kQuant; }
const SlotKernels& quant_bf16_slot_kernels() { return kQuantSlots; }

const TileKernels& quant_bf16_kernels(Encoding encoding) {
  if (is_plain(encoding)) return kPlainPairs;
  return quant_layout(encoding).integers == TileIntegers::nibbles ? quant_bf16_nibble_kernels(encoding)
                                                                  : quant_bf16_plane_kernels(encoding);
}

void bf16_mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice) {
  mixed_gate_and_up_of<QuantBf16Mode>(args, phase, slice, kQuant, bf16_mixed_gate_and_up_tiles);
}

void bf16_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act) {
  mixed_tiles<QuantBf16Mode>(args, panels, slice, act, multiply_tile<QuantBf16Mode>);
}

}  // namespace qinfer::kernels::avx512
