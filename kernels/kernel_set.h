// The contract between the engine and a backend: one struct of operations plus the memory layouts the backend wants.
//
// An operation is cut into phases; between two phases all threads meet at a barrier. A phase is cut into units of work
// with fixed boundaries, and a call computes a Slice of them: kernels know nothing of threads, and which thread takes
// a unit never changes a result. Every output has one order of additions that depends on absolute indices only, never
// on the slice, the number of rows or the batch. Sizes of workspaces are pure functions of shapes, so that a memory
// plan can add them up before anything is loaded.
//
// Views carry no ownership. Views of activations carry their layout, one that the set's ActivationLayouts name; weights
// are [rows = outputs][cols = inputs] in the layout that weight_format() asked for, at any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/activation.h"
#include "base/dtype.h"
#include "base/encoding.h"
#include "base/kv_layout.h"
#include "common/tile.h"

namespace qinfer::kernels {

/// `tied`: one matrix that is both the embedding and the LM head.
/// `router`: decides which experts a row goes through. An error there picks other experts,
/// so sets keep the values of the file where they can.
enum class WeightRole : std::uint8_t { embedding, q, k, v, o, gate, up, down, lm_head, tied, router };
enum class WeightLayout : std::uint8_t {
  row_major,  ///< element (n, k) at data[n * cols + k]
  tile32,     ///< at data[(n / 32) * 32 * cols + k * 32 + n % 32]; zero rows fill the last tile. Of a quantised
              ///< encoding: common/quant_tiles.h
  pairs32,    ///< at data[((n / 32) * ceil(cols / 2) + k / 2) * 64 + n % 32 * 2 + k % 2]; zeros fill the last tile and
              ///< pair
  squares32,  ///< what earlier versions packed for amx: refused by name
  pairs16  ///< at data[((n / 16) * ceil(cols / 32) * 16 + k / 2) * 32 + n % 16 * 2 + k % 2]; zeros fill the last tile
           ///< and 32 columns
};

/// What weights are stored as, and in which order.
struct WeightFormat {
  Encoding encoding = Encoding::f32;
  WeightLayout layout = WeightLayout::row_major;
  bool operator==(const WeightFormat&) const = default;
};

/// What a set notes about a matrix when it packs it, and its operations read. All other code carries it along with the
/// matrix, into packed files too, without looking at it.
struct PackInfo {
  float scale = 1;    ///< a power of two: the stored values are the weights divided by it
  float largest = 0;  ///< largest finite magnitude among the stored values; 0 where the set did not pack them
};

struct Matrix {
  const std::byte* data = nullptr;
  WeightFormat format;
  std::int64_t rows = 0, cols = 0;
  PackInfo pack = {};
};

/// What is added to a linear layer for rows [first_row, first_row + n_rows) of those that the operation multiplies (of
/// the LM head, those whose logits are wanted): up(down(x)), by two matrices of low rank, as adapters have them (LoRA,
/// Hu et al. 2021, section 4.1). All are f32, and stay where they are until the operation has ended.
struct Addition {
  std::int64_t first_row = 0, n_rows = 0, rank = 0;
  const float* down = nullptr;  ///< [rank][cols of the layer]
  const float* up = nullptr;    ///< [rank][rows of the layer], with the factor of the adapter in it
  float* inner = nullptr;       ///< [n_rows][rank]: room for down(x), written by the operation; each has its own
};

/// A linear layer, the operand of every operation that multiplies: output j of a row x is
/// (sum over k of x[k] * w[j][k], + bias[j], + what each addition of the row gives, in their order) * scale.
/// common/additions.h says in which order an addition adds up.
struct Linear : Matrix {
  const float* bias = nullptr;  ///< null: none
  float scale = 1;
  std::span<const Addition> additions;

  Linear() = default;
  // A matrix alone is a layer without more.
  Linear(const Matrix& matrix, const float* bias_ = nullptr, float scale_ = 1)  // NOLINT(google-explicit-constructor)
      : Matrix(matrix), bias(bias_), scale(scale_) {}
};

/// The lengths of a matrix's dimensions as it is stored, outermost first. The innermost one of a quantised matrix
/// counts bytes: [rows][bytes of a row] or [tiles][bytes of a tile].
struct StoredShape {
  std::uint64_t lengths[3] = {};
  std::uint32_t n = 0;
};

// What follows from a weight format alone, for every set: where layouts have their names, sizes and shapes.
std::string_view weight_layout_name(WeightLayout layout);
std::optional<WeightLayout> find_weight_layout(std::string_view name);
/// For n a multiple of kPackRows, weight_bytes(format, n, cols) is where row n begins, and the rows from there on may
/// be packed as a separate matrix.
std::uint64_t weight_bytes(const WeightFormat& format, std::int64_t rows, std::int64_t cols);
StoredShape weight_shape(const WeightFormat& format, std::int64_t rows, std::int64_t cols);
/// What the address of a matrix's first byte must be a multiple of.
std::uint64_t weight_alignment(const WeightFormat& format);

/// How the activations of a batch are stored between operations. In panels 16 rows are side by side, so that a register
/// of 16 lanes holds one feature of all of them: the form in which a set with tiles produces and multiplies them.
enum class ActivationLayout : std::uint8_t {
  row_major,   ///< f32 [row][ld]
  f32_panels,  ///< 16 rows side by side: f32 [row / 16][feature][16]
  bf16_panels  ///< bf16 [row / 16][feature / 2][16][2]; zeros fill the features up to a multiple of 32
};
inline constexpr std::uint64_t kPanelRows = 16, kPanelFeatures = 32;

/// Bytes of n rows of `width` features.
std::uint64_t layout_bytes(ActivationLayout layout, std::uint64_t n, std::uint64_t width);

/// The layouts in which a set takes and gives the activations of a batch of n rows. Residual: what embedding, linear
/// layers and feed-forward networks write, and norms read or add to. Operands: what norms and attention write, and what
/// is multiplied with weights. Queries: in panels each head begins at a multiple of kPanelFeatures.
///
/// The caller asks once for each buffer and batch and puts the answer into the view; operations look at the view.
struct ActivationLayouts {
  ActivationLayout residual = ActivationLayout::row_major, operand = ActivationLayout::row_major,
                   query = ActivationLayout::row_major;
  std::int64_t max_row_major = 0;  ///< batches of at most this many rows are row-major, overriding the layouts above

  ActivationLayout residual_of(std::int64_t n) const { return of(residual, n); }
  ActivationLayout operand_of(std::int64_t n) const { return of(operand, n); }
  ActivationLayout query_of(std::int64_t n) const { return of(query, n); }

 private:
  ActivationLayout of(ActivationLayout many, std::int64_t n) const {
    return n <= max_row_major ? ActivationLayout::row_major : many;
  }
};
/// Width of one query row, padding of each head included.
std::uint64_t query_width(ActivationLayout layout, std::uint64_t n_heads, std::uint64_t head_dim);

/// A view of activations. It carries its layout: no operation derives one from the number of rows.
struct Activations {
  void* data = nullptr;
  ActivationLayout layout = ActivationLayout::row_major;
  std::int64_t ld = 0;  ///< row-major: elements from one row to the next; panels: features of a row, without padding

  bool is_row_major() const { return layout == ActivationLayout::row_major; }
  float* f32() const { return static_cast<float*>(data); }  ///< not of bf16_panels
  /// Where row m of a row-major view begins.
  float* row(std::int64_t m) const { return f32() + m * ld; }
  /// bf16_panels: pairs of features, the first one in the low half.
  std::uint32_t* pairs() const { return static_cast<std::uint32_t*>(data); }
};

/// Units [begin, end) of one phase, computed by `worker` (which selects its part of the per-worker workspace). A worker
/// may be called any number of times in a phase, with slices anywhere: nothing is carried from one to the next.
struct Slice {
  std::int64_t begin = 0, end = 0;
  std::int32_t worker = 0;
};

struct Workspace {
  std::byte* shared = nullptr;      ///< lives from the first phase of the operation to its last
  std::byte* per_worker = nullptr;  ///< worker i owns [i * per_worker_bytes, (i+1) * per_worker_bytes)
  std::size_t per_worker_bytes = 0;
  std::byte* of(std::int32_t worker) const { return per_worker + static_cast<std::size_t>(worker) * per_worker_bytes; }
};

struct WorkspaceSize {
  std::uint64_t shared = 0, per_worker = 0;
};

/// The rows of one session in a batch: batch rows [first_row, first_row + n_rows) hold its tokens at positions
/// first_position, first_position + 1, ...
struct Sequence {
  KvView kv;
  std::int32_t first_row = 0, n_rows = 0;
  std::uint32_t first_position = 0;
};

/// Row rows[m] of a row-major table, for row m of a batch.
struct TableRows {
  const std::int32_t* rows = nullptr;
  Matrix table;  ///< without data: there is none
};

/// out[m] = table row tokens[m], widened to f32, times scale, to which a row of each further table is added, in their
/// order (of token types and of positions: BERT, Devlin et al. 2019, figure 2).
struct EmbedArgs {
  std::int64_t n = 0;
  const std::int32_t* tokens = nullptr;
  Matrix table;
  Activations out;
  float scale = 1;
  TableRows added[2] = {};
};

/// out[m] = x[m] / sqrt(mean(x[m]^2) + eps) * weight (RMSNorm, Zhang and Sennrich 2019, eq. 4). x has the layout of a
/// residual, and so has out where the norm accumulates; otherwise out is an operand, or row-major whatever the number
/// of rows. Without a weight nothing is normalised: the values go on as they are, in the layout of out.
///
/// Centred it is LayerNorm (Ba et al. 2016, eq. 4): x[m] less its mean in the place of x[m], and bias is added last
/// where there is one.
struct NormArgs {
  std::int64_t n = 0, width = 0;
  const std::int32_t* gather = nullptr;  ///< take row gather[m] of x for output row m; null: row m
  Activations x;
  const float* weight = nullptr;  ///< null: out[m] = x[m], and accumulate must be false
  float eps = 0;
  Activations out;
  bool accumulate = false;  ///< add to out (the residual stream) instead of overwriting it
  bool centred = false;
  const float* bias = nullptr;  ///< only where it is centred, and does not accumulate
  bool replaces = false;        ///< x[m] becomes what out[m] is, too; only without gather, and not accumulating
};

/// out[m] (+)= w(x[m]). Each output is rounded to f32 before it is added to out.
struct LinearArgs {
  std::int64_t n = 0;
  Activations x;
  Linear w;
  bool accumulate = false;  ///< add to out (the residual stream) instead of overwriting it
  Activations out;
  Workspace workspace;
};

/// What few architectures do with heads of queries and keys.
struct HeadRules {
  bool norm_after_rope = false;  ///< a norm of each head follows its turning
  /// In the end a query at position p is multiplied by 1 + query_scaling ln(1 + floor(p / query_scale_tokens)); 0: by
  /// nothing.
  float query_scaling = 0;
  std::uint32_t query_scale_tokens = 1;

  /// Calls f(name, pointer to member) for each rule: what is said of a model lists all of them.
  template <typename F>
  static void each(F f) {
    f("norm_after_rope", &HeadRules::norm_after_rope);
    f("query_scaling", &HeadRules::query_scaling);
    f("query_scale_tokens", &HeadRules::query_scale_tokens);
  }
};

/// The projections to queries, keys and values, the RMSNorm of each query and key head (where q_norm is given) or of
/// all of them together, rotary position embedding in the half-rotation form (Su et al. 2021, as in GPT-NeoX) where
/// rope is given, and the write to the KV cache. Without wk and wv only the queries: the layer reads keys and values
/// that another has written.
///
/// A norm over all heads needs every head of a row, which many units have computed: queries and keys then are kept as
/// projected (Shape::qk_norm_whole makes room), and a last phase finishes them.
struct QkvArgs {
  std::int64_t n = 0;
  Activations x;
  Linear wq, wk, wv;
  const float *q_norm = nullptr, *k_norm = nullptr;
  float norm_eps = 0;
  bool norm_whole = false;  ///< one mean square for all query heads of a row, and one for all key heads; q_norm has
                            ///< n_heads * head_dim weights and k_norm n_kv_heads * head_dim
  HeadRules rules;
  const float* rope = nullptr;  ///< [position][head_dim / 2][cos, sin]; null: queries and keys are not turned
  std::uint32_t n_heads = 0;
  KvLayout kv;
  std::uint32_t layer = 0;
  std::span<const Sequence> sequences;
  Activations q;  ///< [n][n_heads * head_dim]
  Workspace workspace;
  bool writes_kv() const { return wk.data != nullptr; }
};

/// What is added to scores by how far the key is after the query, or before it where the distance is negative: a number
/// for each head and distance (Raffel et al. 2020, section 2.1). Beyond `reach`, to both sides, it is that of the
/// distance `reach`. The table goes on for a tile less one to both sides, so that the numbers of a tile of keys are
/// side by side wherever the tile is.
struct DistanceBias {
  const float* values = nullptr;  ///< [n_heads][stride(reach)], from the smallest distance on; null: nothing is added
  std::int32_t reach = 0;

  static constexpr std::int32_t kBeyond = static_cast<std::int32_t>(kTileTokens) - 1;
  static constexpr std::int64_t stride(std::int32_t reach) { return 2 * (std::int64_t{reach} + kBeyond) + 1; }
  /// Where the number is, among those of all heads, of the key at position `origin` and a query at `position`; those of
  /// the 31 keys after it follow.
  std::int64_t of_tile(std::uint32_t head, std::uint32_t position, std::uint32_t origin) const {
    const std::int64_t distance = std::int64_t{origin} - position, least = -std::int64_t{reach} - kBeyond;
    const std::int64_t known = distance < least ? least : distance > reach ? std::int64_t{reach} : distance;
    return head * stride(reach) + known - least;
  }
};

/// softmax(q k^T * scale) v for each query head over the cached positions p - window + 1 .. p (window 0: 0 .. p), and,
/// where attention is not causal, over p + 1 .. p + window - 1 too (window 0: to the last of the sequence's rows). With
/// a soft cap the scores s are softcap * tanh(s / softcap) (Gemma 2, section 2); without one, what their distance says
/// is added to them. Query head h reads KV head h / (n_heads / n_kv_heads).
struct AttentionArgs {
  std::int64_t n = 0;  ///< rows of the batch
  Activations q, out;
  std::uint32_t n_heads = 0;
  float scale = 1;
  float softcap = 0;       ///< 0: none
  DistanceBias bias = {};  ///< only without a soft cap
  bool causal = true;
  std::uint32_t window = 0;
  KvLayout kv;
  std::uint32_t layer = 0;
  std::span<const Sequence> sequences;
  /// One unit per segment of 512 keys, partial results in workspace.shared, folded in a second phase: for few rows
  /// with long contexts. Needs attention_split_bytes() of shared workspace. Same bits either way.
  bool split = false;
  Workspace workspace;
};

/// out[m] (+)= down(activation(gate(x[m])) * up(x[m])) (SwiGLU and GeGLU, Shazeer 2020, section 2); where up has no
/// data, down(activation(gate(x[m]))). out may be x.
struct FfnArgs {
  std::int64_t n = 0;
  Activations x;
  Linear gate, up, down;
  Activations out;
  Workspace workspace;
  Activation activation = Activation::silu;
  bool accumulate = true;  ///< add to out (the residual stream) instead of overwriting it
  bool has_up() const { return up.data != nullptr; }
};

/// Where a mixture of experts keeps what passes from one phase to the next; MoeWorkspace says how much of each.
struct MoeBuffers {
  std::byte* routes = nullptr;    ///< what common/routes.h describes: who goes where, with which weight
  std::byte* gathered = nullptr;  ///< operands of the experts' matrices, sorted by expert
  std::byte* inner = nullptr;     ///< activation(gate) * up, sorted by expert
};

/// A mixture of experts: out[m] (+)= scale * the sum, over the chosen experts e of row m in ascending order, of
/// weight(m, e) * ffn_e(x[m]), to which sigmoid(x[m] . shared_router) * ffn_shared(x[m]) is added last where there is a
/// shared network (Qwen2-MoE). Each ffn is down(activation(gate(x)) * up(x)).
///
/// The weights are those of a softmax over the router's outputs for all experts, in f32, of which the top_k largest are
/// chosen (ties: choose_largest() in common/routes.h); `normalise` divides them by their sum. A row for which one of
/// these outputs is not finite goes through no expert, and all its results are NaN. Nothing of a row depends on other
/// rows. Layers of a mixture have no additions. out may be x.
struct MoeArgs {
  std::int64_t n = 0;  ///< at least 1
  Activations x;
  Linear router;                                                   ///< [experts][hidden]
  const Linear *gate = nullptr, *up = nullptr, *down = nullptr;    ///< [experts]; they may differ in their formats
  Linear shared_router, shared_gate, shared_up, shared_down = {};  ///< without data: there is no shared network
  std::uint32_t experts = 0, top_k = 0;
  bool normalise = false;
  Activations out;
  MoeBuffers buffers;
  Workspace workspace;  ///< per_worker alone
  Activation activation = Activation::silu;
  bool accumulate = true;  ///< add to out (the residual stream) instead of overwriting it
  float scale = 1;
  std::uint64_t* usage = nullptr;  ///< [experts]: how many rows each was chosen for is added; null: not counted

  std::int64_t expert_width() const { return gate[0].rows; }
  std::int64_t shared_width() const { return shared_gate.rows; }
  bool has_shared() const { return shared_gate.data != nullptr; }
};

/// out[m] = w(x[m]); each row has its own address. With a soft cap, softcap * tanh of that divided by softcap.
struct LmHeadArgs {
  std::int64_t n = 0;
  Activations x;
  Linear w;
  float* const* out = nullptr;
  Workspace workspace;
  float softcap = 0;  ///< 0: none
};

/// Phases run in order, with a barrier between two of them. `phases` and the units of phase 0 follow from the arguments
/// alone. The units of any later phase may depend on what the phases before it wrote (for instance on routing), and are
/// therefore asked only after the barrier that follows the phase before. A phase never changes what its own number of
/// units depends on, so all workers get the same answer. A phase without units has nothing to do and, unless it is the
/// last, needs no barrier: the next one may be asked and run at once.
template <typename Args>
struct Operation {
  std::int32_t (*phases)(const Args& args) = nullptr;  ///< at least 1, trailing phases that cannot have units left out
  std::int64_t (*units)(const Args& args, std::int32_t phase) = nullptr;
  void (*run)(const Args& args, std::int32_t phase, Slice slice) = nullptr;
};

/// What workspace sizes depend on.
struct Shape {
  std::uint32_t batch = 0;  ///< rows at most
  std::uint32_t hidden = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::uint32_t context = 0;          ///< positions at most
  std::uint32_t head_dim_padded = 0;  ///< the largest of all KV types: scratch is planned before a cache exists
  std::uint32_t n_threads = 0;
  bool qk_norm_whole = false;  ///< QkvArgs::norm_whole
  /// Mixtures of experts, the largest of each among all layers; 0 experts: there is none.
  std::uint32_t experts = 0, top_k = 0, expert_width = 0, shared_width = 0;
  std::uint32_t dense = 0;  ///< columns of the widest layer after pooling; 0: there is none

  /// Rows of experts' operands at most: each row of the batch once for each expert that it goes through.
  std::uint64_t routed_rows() const { return std::uint64_t{batch} * top_k; }
};

/// Sizes of MoeBuffers, and of what each worker has for itself.
struct MoeWorkspace {
  std::uint64_t routes = 0, gathered = 0, inner = 0, per_worker = 0;
};

enum class PackEnd : std::uint8_t { done, again, out_of_range };
/// Rows of a part of a matrix that is packed are a multiple of this, but for the last part.
inline constexpr std::int64_t kPackRows = 32;

struct KernelSet {
  const char* name = nullptr;
  /// What follows the name in those of snapshots of models with quantised weights, where these had other bits before.
  const char* quantised_name = "";
  /// How the set wants a matrix of this role in memory that the file has as `stored`; `wanted`: the host asks for this
  /// encoding; `exact`: it must hold the file's values exactly. Row-major and the file's encoding means: use the mapped
  /// file. False if the set has no such format.
  bool (*weight_format)(WeightRole role, Encoding stored, const Encoding* wanted, bool exact,
                        WeightFormat& out) = nullptr;
  /// Changes a format that weight_format() gave for this role to the one that the set multiplies fastest, where that is
  /// worth a copy of what the mapped file has. Null: there is no faster one.
  void (*pack_format)(WeightRole role, WeightFormat& format) = nullptr;
  /// Packing a matrix: pack() converts its rows, in any number of parts and on any number of threads, then pack_end()
  /// looks at what was found and says whether that was all. A part is rows [first, last) of a row-major source,
  /// `first` a multiple of kPackRows, written to a destination that holds the whole matrix in `format`; the part that
  /// ends with the last row also fills what the layout pads. Returns the largest finite magnitude of these rows in the
  /// source. Every set packs into row-major f32 too, which is how norm weights and biases are kept. Values that keep
  /// their encoding keep every bit.
  float (*pack)(const Matrix& source, const WeightFormat& format, const PackInfo& info, std::byte* destination,
                std::int64_t first, std::int64_t last) = nullptr;
  /// `largest`: of all parts. Completes `info`, with which packing began as PackInfo(), or changes it so that all parts
  /// have to be packed again; or the format cannot hold such values.
  PackEnd (*pack_end)(const WeightFormat& format, float largest, PackInfo& info) = nullptr;
  std::uint32_t (*kv_head_dim_padded)(std::uint32_t head_dim, DType type) = nullptr;
  KvOrder (*kv_order)(DType type) = nullptr;
  DType (*default_kv_type)(bool exact) = nullptr;
  ActivationLayouts layouts = {};

  WorkspaceSize (*linear_workspace)(const Shape& shape) = nullptr;
  WorkspaceSize (*qkv_workspace)(const Shape& shape) = nullptr;
  WorkspaceSize (*attention_workspace)(const Shape& shape) = nullptr;
  /// Shared bytes that a split attention over these sequences needs.
  std::uint64_t (*attention_split_bytes)(const AttentionArgs& args) = nullptr;
  WorkspaceSize (*ffn_workspace)(const Shape& shape) = nullptr;
  MoeWorkspace (*moe_workspace)(const Shape& shape) = nullptr;  ///< asked where there are experts
  WorkspaceSize (*lm_head_workspace)(const Shape& shape) = nullptr;

  Operation<EmbedArgs> embed;
  Operation<NormArgs> norm;
  Operation<LinearArgs> linear;
  Operation<QkvArgs> qkv;
  Operation<AttentionArgs> attention;
  Operation<FfnArgs> ffn;
  Operation<MoeArgs> moe_ffn;
  Operation<LmHeadArgs> lm_head;
};

/// The operations of every set, by the names of KernelSet's members. Tests and microbenches walk them for each row of
/// kernel_sets().
inline constexpr std::string_view kOperations[] = {"embed",     "norm", "linear",  "qkv",
                                                   "attention", "ffn",  "moe_ffn", "lm_head"};
/// The types of embeddings, and of keys and values, that every set reads.
inline constexpr std::string_view kAllTypes = "f32 f16 bf16";

/// What products are computed with, which says how they are rounded and how fast they can be at best.
enum class Multiplier : std::uint8_t {
  f32_fma,  ///< nothing is rounded, sums are f32
  f16_fma,  ///< activations and softmax weights are rounded to f16; sums are f16 over runs of 64 products (attention:
            ///< over the 32 positions of a tile) and f32 over the runs
  bf16_tiles,  ///< activations, weights, queries, keys and values are rounded to bf16, softmax weights and quantised
               ///< weights cut; sums are f32
  bf16_dot,    ///< activations, queries and softmax weights are rounded to bf16; sums are f32, in which numbers smaller
               ///< than 2^-126 count as zero
  int16_dot,   ///< activations are rounded to 16-bit integers, each 32 of them times a power of two of their own; sums
               ///< are exact over the 16 or 32 integers that share a scale, and f32 over those
  int16_tiles  ///< the same by two products of bf16 tiles
};

/// How a set rounds and adds up: tests derive their tolerances from it, benches the peak that they compare with.
struct Numerics {
  /// For projections with such weights, and for attention over such values.
  Multiplier (*multiplier)(Encoding encoding) = nullptr;
  std::int64_t lanes = 1;  ///< an f32 sum is this many sums of every lanes-th product, or more; added pairwise
};

/// Which models a set of kernel_sets(), one row of which says what chooses a set and what it promises, is chosen for
/// where the host names none.
enum class ChosenFor : std::uint8_t {
  held_plain,  ///< those all of whose matrices are plain, or in the encoding KernelSetRow::held_besides, and which the
               ///< set keeps with the file's values
  held_exactly,  ///< those with any quantised ones, too
  quantised,     ///< those with quantised matrices
  all
};

struct KernelSetRow {
  std::string_view name;
  std::string_view needs;  ///< CPU features, separated by spaces
  const KernelSet& (*get)();
  bool exact;  ///< it can hold every file's values, and computes in f32
  ChosenFor chosen_for = ChosenFor::all;
  std::optional<Encoding> held_besides = std::nullopt;
  /// Where it is chosen and not named, weights are packed while loading (QINFER_LOAD_PACK), which it needs to be as
  /// fast as the sets after it at any number of rows.
  bool packs_unnamed = false;
  Numerics numerics;
  std::string_view weight_types = kAllTypes;  ///< the plain ones that it multiplies with, separated by spaces
};
/// All of them, the best one first.
std::span<const KernelSetRow> kernel_sets();

/// The set of that name if it exists and a CPU with these features (names separated by spaces) can run it, otherwise
/// null. An empty name asks for the best one that is chosen for all models; `exact`: among those that compute in f32.
const KernelSet* find_kernel_set(std::string_view name, std::string_view cpu_features, bool exact = false);

/// Those that a CPU with these features can run and that are chosen for some models alone, the best ones first, and
/// before the best one that is chosen for all models.
std::vector<const KernelSetRow*> find_preferred_sets(std::string_view cpu_features, bool exact);

/// Whether a set needs tiles, which the system gives to a process that asks for them.
bool needs_tiles(const KernelSetRow& row);

}  // namespace qinfer::kernels
