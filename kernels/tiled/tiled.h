// What every set with tile-major weights shares; the files of this folder are compiled once for each instruction set.
// Weights are in tiles of 32 rows, [N/32][K][32], so that outputs are lanes and a matrix is one stream of whole cache
// lines. Sums are f32, in one order: the results of these files are the same bits in all instruction sets. A folder of
// an instruction set brings the vector layer (vec.h), the inner loops (f32_sums.h) and its kernel sets; those of
// AVX-512 and AVX2 have sets with other products and sums too.
#pragma once

#include "common/heads.h"
#include "common/routes.h"
#include "kernel_set.h"
#include "tiled/isa.h"

namespace qinfer::kernels::QINFER_ISA {

// ---- pack.cpp ----
float pack(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
           std::int64_t first, std::int64_t last);
PackEnd pack_end(const WeightFormat& format, float largest, PackInfo& info);

// ---- elementwise.cpp ----
std::int64_t embed_units(const EmbedArgs& args, std::int32_t phase);
void embed(const EmbedArgs& args, std::int32_t phase, Slice slice);
std::int64_t norm_units(const NormArgs& args, std::int32_t phase);
void norm(const NormArgs& args, std::int32_t phase, Slice slice);
/// One row; x and out may be the same.
void rms_norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out);

/// Outputs [begin, end) of the LM head, as far as they exist, become softcap * tanh(output / softcap).
void cap_logits(const LmHeadArgs& args, std::int64_t begin, std::int64_t end);

// ---- heads.cpp ----
/// Finishes the heads that one block of a projection holds: norm, rotation, and the write to q or to the cache.
/// `values`: [tokens][ld] f32, batch rows first_row and up, heads [first_head, first_head + n_heads) of one kind.
struct HeadBlock {
  HeadKind kind = HeadKind::query;
  std::uint32_t first_head = 0, n_heads = 0;
  std::int64_t first_row = 0, tokens = 0;
  float* values = nullptr;
  std::int64_t ld = 0;
};
void finish_heads(const QkvArgs& args, const HeadBlock& block);
/// The phase after the projections where a norm is of all heads together: norms whole rows of queries and of keys and
/// finishes their heads. Units: of waiting_unit_rows().
void finish_waiting(const QkvArgs& args, Slice slice);
/// Bytes of the panels that precede such rows in the shared workspace of q/k/v.
std::uint64_t shared_panels_bytes(std::uint64_t n, std::uint64_t width);

// ---- attention_f32.cpp ----
std::int32_t attention_phases(const AttentionArgs& args);
std::int64_t attention_units(const AttentionArgs& args, std::int32_t phase);
void attention(const AttentionArgs& args, std::int32_t phase, Slice slice);
WorkspaceSize attention_workspace(const Shape& shape);
std::uint64_t attention_split_bytes(const AttentionArgs& args);

// ---- projections with f32 sums (projections_f32.cpp, projections_quant.cpp) ----
struct Projections {
  Operation<LinearArgs> linear;
  Operation<QkvArgs> qkv;
  Operation<FfnArgs> ffn;
  Operation<LmHeadArgs> lm_head;
};
/// For tiles of this encoding.
const Projections& f32_projections(Encoding weights);
/// For tiles of any quantised encoding: each matrix is multiplied by the loops of its encoding.
const Projections& quant_projections();

/// What activations are multiplied as.
/// (int16_tiles: with panels of many rows on tiles of AMX.)
enum class Products : std::uint8_t { f32, f16, bf16, int16, int16_tiles };

/// Phases of q/k/v, and the first two of a feed-forward network, where the matrices that share activations differ in
/// their encoding. Each is multiplied by its own inner loop; all sums are f32, in avx512_fp16 and the sets of 16-bit
/// integers too where some of them are not quantised, so that one packing of the activations serves all. An output has
/// the bits that it has among matrices of its own encoding with f32 sums.
void mixed_qkv(const QkvArgs& args, std::int32_t phase, Slice slice);
void mixed_gate_and_up(const FfnArgs& args, std::int32_t phase, Slice slice);
/// activation(gate) * up for the tiles of a slice, into rows `act`. `f32_panels`: Panels of args.n rows.
void mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* f32_panels, Slice slice, const Activations& act);

// ---- mixtures of experts (moe.cpp) ----
inline constexpr std::int32_t kMoePhases = 8;
std::int64_t moe_units(const MoeArgs& args, std::int32_t phase);
/// `best`: the products that are the best ones of a set for plain weights, or for quantised ones where it has others
/// for these alone.
void moe(const MoeArgs& args, std::int32_t phase, Slice slice, Products best);
MoeWorkspace moe_workspace(const Shape& shape);

/// What is multiplied with tiles [begin, end) of a slot: its rows, in panels.
struct SlotWork {
  const MoeArgs& args;
  const Routes& routes;
  const ExpertSlot& slot;
  std::byte* panels;
  std::int64_t begin, end;
  const ExpertSlot* next;   ///< the slot that is multiplied with after this one; null: none
  std::int64_t next_begin;  ///< its first tile
};
/// The two halves of a slot's network for one type of weights and sums.
struct SlotKernels {
  void (*inner)(const SlotWork& work) = nullptr;
  void (*outer)(const SlotWork& work) = nullptr;
};
const SlotKernels& quant_slot_kernels();

/// The operands of one half of a slot: what is packed into panels.
struct Operand {
  Activations rows;  ///< row i of the slot is row i, or row routes.rows[slot.first + i].row where it is gathered
  bool gathered;
  Products products;
  bool sums;  ///< as quantised weights want them with panels of bf16; those of integers have them always
  float limit;
  std::int64_t cols;
};

// ---- what is defined where kHasPairs, in the folder of the instruction set ----
#if defined(__AVX512F__)
/// Whether there are sets with weights, or keys and values, as pairs of bf16.
inline constexpr bool kHasPairs = true;
#else
inline constexpr bool kHasPairs = false;
#endif
/// Into WeightLayout::pairs32.
float pack_pairs(const Matrix& source, std::byte* destination, std::int64_t first, std::int64_t last);
/// Keys or values of one head into a cache of KvOrder::key_pairs: `count` rows of `width`, f32 [count][ld], to lanes
/// `lane` and up of a tile, that of keys or that of values.
void write_key_pairs(const float* values, std::int64_t ld, std::int64_t count, std::int64_t lane, std::int64_t width,
                     std::byte* tile);
void write_value_pairs(const float* values, std::int64_t ld, std::int64_t count, std::int64_t lane, std::int64_t width,
                       std::int64_t padded, std::byte* tile);

// ---- what is defined where kNarrowProducts, in the folder of the instruction set ----
#if defined(__AVX512F__) || defined(__AVX2__)
/// Whether there are sets with other products than those of f32.
inline constexpr bool kNarrowProducts = true;
#else
inline constexpr bool kNarrowProducts = false;
#endif
/// mixed_gate_and_up_tiles() with such products.
void narrow_mixed_gate_and_up_tiles(const FfnArgs& args, std::uint32_t* panels, Slice slice, const Activations& act,
                                    Products products);
/// Packs panels [begin, end) of a slot into `memory`, for such products; and what multiplies them.
void pack_narrow_slot(const Routes& routes, const ExpertSlot& slot, const Operand& operand, std::byte* memory,
                      std::int64_t begin, std::int64_t end);
const SlotKernels& narrow_slot_kernels(Encoding encoding, Products products);

// ---- projections_f32.cpp ----
WorkspaceSize linear_workspace(const Shape& shape);
WorkspaceSize qkv_workspace(const Shape& shape);
/// For loops that take so many full panels at once.
WorkspaceSize qkv_workspace_of(const Shape& shape, std::uint64_t panels);
WorkspaceSize ffn_workspace(const Shape& shape);
WorkspaceSize lm_head_workspace(const Shape& shape);

}  // namespace qinfer::kernels::QINFER_ISA
