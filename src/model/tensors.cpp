// See tensors.h: which tensors a spec needs, as one table of roles.
#include "model/tensors.h"

#include <algorithm>

#include "model/distances.h"

namespace qinfer::model {
namespace {

using SizeOf = std::uint32_t (*)(const ModelSpec&, const LayerSpec&);
using Wanted = bool (*)(const ModelSpec&, const LayerSpec&);

constexpr SizeOf kHidden = [](const ModelSpec& s, const LayerSpec&) { return s.n_embd; };
constexpr SizeOf kQuery = [](const ModelSpec&, const LayerSpec& l) { return l.attention()->q_dim(); };
constexpr SizeOf kKeyValue = [](const ModelSpec&, const LayerSpec& l) { return l.attention()->kv_dim(); };
constexpr SizeOf kQNormSize = [](const ModelSpec&, const LayerSpec& l) {
  return l.attention()->qk_norm == QkNorm::whole ? l.attention()->q_dim() : l.attention()->head_dim;
};
constexpr SizeOf kKNormSize = [](const ModelSpec&, const LayerSpec& l) {
  return l.attention()->qk_norm == QkNorm::whole ? l.attention()->kv_dim() : l.attention()->head_dim;
};
constexpr SizeOf kFfn = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.width; };
constexpr SizeOf kExperts = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.experts; };
constexpr SizeOf kShared = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.shared_width; };
constexpr SizeOf kOne = [](const ModelSpec&, const LayerSpec&) { return 1u; };

/// Layers that read another's keys and values have none of what makes them.
bool has_own_kv(const ModelSpec&, const LayerSpec& l) {
  return l.attention() != nullptr && l.attention()->has_own_kv();
}
bool has_qk_norm(const ModelSpec&, const LayerSpec& l) {
  return l.attention() != nullptr && l.attention()->qk_norm != QkNorm::none;
}
bool has_qkv_bias(const ModelSpec&, const LayerSpec& l) { return l.attention() != nullptr && l.attention()->qkv_bias; }

constexpr Wanted kAlways = [](const ModelSpec&, const LayerSpec&) { return true; };
constexpr Wanted kAttention = [](const ModelSpec&, const LayerSpec& l) { return l.attention() != nullptr; };
constexpr Wanted kOwnKv = has_own_kv;
constexpr Wanted kAttnNorm = [](const ModelSpec&, const LayerSpec& l) { return l.norms.before_attention; };
constexpr Wanted kAttnPostNorm = [](const ModelSpec&, const LayerSpec& l) { return l.norms.after_attention; };
constexpr Wanted kFfnNorm = [](const ModelSpec&, const LayerSpec& l) { return l.norms.before_ffn; };
constexpr Wanted kFfnPostNorm = [](const ModelSpec&, const LayerSpec& l) { return l.norms.after_ffn; };
constexpr Wanted kQNorm = has_qk_norm;
constexpr Wanted kKNorm = [](const ModelSpec& s, const LayerSpec& l) { return has_qk_norm(s, l) && has_own_kv(s, l); };
constexpr Wanted kQBias = has_qkv_bias;
constexpr Wanted kKvBias = [](const ModelSpec& s, const LayerSpec& l) {
  return has_qkv_bias(s, l) && has_own_kv(s, l);
};
constexpr Wanted kOBias = [](const ModelSpec&, const LayerSpec& l) {
  return l.attention() != nullptr && l.attention()->o_bias;
};
constexpr Wanted kMlpBias = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.bias; };
constexpr Wanted kUp = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.has_up; };
constexpr Wanted kUpBias = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.has_up && l.ffn.bias; };
constexpr Wanted kAttnNormBias = [](const ModelSpec& s, const LayerSpec& l) {
  return s.norm_kind == NormKind::centred_with_bias && l.norms.before_attention;
};
constexpr Wanted kFfnNormBias = [](const ModelSpec& s, const LayerSpec& l) {
  return s.norm_kind == NormKind::centred_with_bias && l.norms.before_ffn;
};
constexpr Wanted kRouter = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.has_experts(); };
constexpr Wanted kSharedNetwork = [](const ModelSpec&, const LayerSpec& l) { return l.ffn.shared_width != 0; };

using kernels::WeightRole;

struct RoleRow {
  Role role;
  std::string_view name;
  bool is_vector;
  SizeOf rows, cols;
  Wanted wanted;
  WeightRole kernel = WeightRole::embedding;  ///< of a matrix: what a kernel set makes of it
};

/// The tensors of a layer, in the order in which they are loaded.
constexpr RoleRow kLayerRoles[] = {
    {Role::attn_norm, "attn_norm", true, kOne, kHidden, kAttnNorm},
    {Role::attn_post_norm, "attn_post_norm", true, kOne, kHidden, kAttnPostNorm},
    {Role::ffn_norm, "ffn_norm", true, kOne, kHidden, kFfnNorm},
    {Role::ffn_post_norm, "ffn_post_norm", true, kOne, kHidden, kFfnPostNorm},
    {Role::q_norm, "q_norm", true, kOne, kQNormSize, kQNorm},
    {Role::k_norm, "k_norm", true, kOne, kKNormSize, kKNorm},
    {Role::attn_norm_bias, "attn_norm_bias", true, kOne, kHidden, kAttnNormBias},
    {Role::ffn_norm_bias, "ffn_norm_bias", true, kOne, kHidden, kFfnNormBias},
    {Role::q_bias, "q_bias", true, kOne, kQuery, kQBias},
    {Role::k_bias, "k_bias", true, kOne, kKeyValue, kKvBias},
    {Role::v_bias, "v_bias", true, kOne, kKeyValue, kKvBias},
    {Role::o_bias, "o_bias", true, kOne, kHidden, kOBias},
    {Role::gate_bias, "gate_bias", true, kOne, kFfn, kMlpBias},
    {Role::up_bias, "up_bias", true, kOne, kFfn, kUpBias},
    {Role::down_bias, "down_bias", true, kOne, kHidden, kMlpBias},
    {Role::q, "q", false, kQuery, kHidden, kAttention, WeightRole::q},
    {Role::k, "k", false, kKeyValue, kHidden, kOwnKv, WeightRole::k},
    {Role::v, "v", false, kKeyValue, kHidden, kOwnKv, WeightRole::v},
    {Role::o, "o", false, kHidden, kQuery, kAttention, WeightRole::o},
    {Role::gate, "gate", false, kFfn, kHidden, kAlways, WeightRole::gate},
    {Role::up, "up", false, kFfn, kHidden, kUp, WeightRole::up},
    {Role::down, "down", false, kHidden, kFfn, kAlways, WeightRole::down},
    {Role::router, "router", false, kExperts, kHidden, kRouter, WeightRole::router},
    {Role::shared_router, "shared router", false, kOne, kHidden, kSharedNetwork, WeightRole::router},
    {Role::shared_gate, "shared gate", false, kShared, kHidden, kSharedNetwork, WeightRole::gate},
    {Role::shared_up, "shared up", false, kShared, kHidden, kSharedNetwork, WeightRole::up},
    {Role::shared_down, "shared down", false, kHidden, kShared, kSharedNetwork, WeightRole::down},
};
static_assert(std::size(kLayerRoles) == kRoles - kGlobalRoles);

/// Whether each expert of a layer has its own tensor of this role.
bool is_of_expert(Role role) { return role == Role::gate || role == Role::up || role == Role::down; }

/// A tensor that a model has once; rows(): 0 where it has none.
struct GlobalRow {
  Role role;
  std::string_view name;
  bool is_vector;
  std::uint32_t (*rows)(const ModelSpec&);
  WeightRole kernel = WeightRole::embedding;  ///< of a matrix: what a kernel set makes of it; rows of tables are read
                                              ///< as the file has them
};

constexpr std::uint32_t as_one(bool wanted) { return wanted ? 1 : 0; }
bool has_norm_bias(const ModelSpec& s) { return s.norm_kind == NormKind::centred_with_bias; }

/// One of the layers after pooling; of no width where there is none.
DenseSpec dense_of(const ModelSpec& s, std::size_t i) {
  return i < s.embedding.dense.size() ? s.embedding.dense[i] : DenseSpec();
}

/// In the order in which they are loaded: up to the last norm before the layers, the rest after them.
constexpr GlobalRow kGlobalRows[] = {
    {Role::embedding, "embedding", false,
     [](const ModelSpec& s) {  // of a stage also where it is the LM head alone
       return !s.takes_hidden() || (s.gives_logits() && s.tied_embeddings) ? s.n_vocab : 0;
     }},
    {Role::positions, "positions", false, [](const ModelSpec& s) { return s.n_positions; }},
    {Role::types, "types", false, [](const ModelSpec& s) { return s.n_types; }},
    {Role::distances, "distances", false, [](const ModelSpec& s) { return s.has_distances ? kDistanceBuckets : 0; }},
    {Role::final_norm, "final_norm", true, [](const ModelSpec& s) { return as_one(!s.gives_hidden()); }},
    {Role::final_norm_bias, "final_norm_bias", true,
     [](const ModelSpec& s) { return as_one(has_norm_bias(s) && !s.gives_hidden()); }},
    {Role::classifier_dense, "classifier dense", false,
     [](const ModelSpec& s) { return s.classifier.has_dense() ? s.n_embd : 0; }},
    {Role::classifier_dense_bias, "classifier dense_bias", true,
     [](const ModelSpec& s) { return as_one(s.classifier.has_dense() && s.classifier.dense_bias); }},
    {Role::classifier_norm, "classifier norm", true,
     [](const ModelSpec& s) { return as_one(s.classifier.has_dense() && s.classifier.has_norm); }},
    {Role::classifier_norm_bias, "classifier norm_bias", true,
     [](const ModelSpec& s) { return as_one(s.classifier.has_dense() && s.classifier.has_norm && has_norm_bias(s)); }},
    {Role::classifier_out, "classifier out", false, [](const ModelSpec& s) { return s.classifier.n_labels; }},
    {Role::classifier_out_bias, "classifier out_bias", true,
     [](const ModelSpec& s) { return as_one(s.classifier.has_dense()); }},
    {Role::lm_head, "lm_head", false,
     [](const ModelSpec& s) { return s.gives_logits() && !s.tied_embeddings ? s.n_vocab : 0; }, WeightRole::lm_head},
    {Role::dense_first, "dense layer 1", false, [](const ModelSpec& s) { return dense_of(s, 0).outputs; },
     WeightRole::o},
    {Role::dense_first_bias, "bias of dense layer 1", true,
     [](const ModelSpec& s) { return as_one(dense_of(s, 0).bias); }},
    {Role::dense_second, "dense layer 2", false, [](const ModelSpec& s) { return dense_of(s, 1).outputs; },
     WeightRole::o},
    {Role::dense_second_bias, "bias of dense layer 2", true,
     [](const ModelSpec& s) { return as_one(dense_of(s, 1).bias); }},
};
static_assert(std::size(kGlobalRows) == kGlobalRoles);

std::uint32_t columns(const ModelSpec& spec, Role role) {
  if (role == Role::classifier_out_bias) return spec.classifier.n_labels;
  if (role == Role::distances) return spec.largest_attention().n_heads;
  for (std::size_t i = 0; i < kMaxDense; ++i) {
    if (role == kDenseRoles[i].matrix) return dense_of(spec, i).inputs;
    if (role == kDenseRoles[i].bias) return dense_of(spec, i).outputs;
  }
  return spec.n_embd;
}

void add_global_needs(const ModelSpec& spec, bool after_layers, std::vector<TensorNeed>& needs) {
  bool after = false;
  for (const GlobalRow& row : kGlobalRows) {
    after = after || row.role == Role::final_norm;
    const std::uint32_t rows = row.rows(spec);
    if (after != after_layers || rows == 0) continue;
    needs.push_back({{row.role}, row.is_vector, rows, columns(spec, row.role)});
  }
}

}  // namespace

std::string describe(const TensorId& id) {
  std::string_view name;
  for (const GlobalRow& row : kGlobalRows)
    if (row.role == id.role) return std::string(row.name);
  for (const RoleRow& row : kLayerRoles)
    if (row.role == id.role) name = row.name;
  if (id.expert != kNoExpert) return format_text("{} of expert {} of layer {}", name, id.expert, id.layer);
  return format_text("{} of layer {}", name, id.layer);
}

void TensorInfo::set_bytes(std::uint32_t file, std::uint64_t offset, std::uint64_t bytes) {
  rows = shape.empty() || shape.front() == 0 || bytes % shape.front() != 0 ? 1 : shape.front();
  row_bytes = bytes / rows;
  pieces = {{file, offset, rows, row_bytes}};
}

void TensorInfo::keep_rows(std::uint64_t first, std::uint64_t n, std::uint64_t cols) {
  const std::uint64_t each = encoded_bytes(encoding, cols);
  const bool is_vector = shape.size() == 1;
  shape = {n, cols};
  if (is_vector) shape.pop_back();
  set_bytes(file(), offset() + first * each, n * each);
}

void TensorInfo::keep_columns(std::uint64_t matrix, std::uint64_t stored_rows, std::uint64_t cols, std::uint64_t first,
                              std::uint64_t n) {
  const std::uint64_t value = encoded_bytes(encoding, 1), stride = cols * value;
  shape = {n, stored_rows};
  transposed = true;
  rows = n;
  row_bytes = stored_rows * value;
  pieces = {{file(), offset() + matrix * stored_rows * stride + first * value, stored_rows, stride}};
}

std::uint64_t TensorInfo::extent() const {
  const Piece& piece = pieces.front();
  const std::uint64_t last = transposed ? rows * encoded_bytes(encoding, 1) : row_bytes;
  return piece.rows == 0 ? 0 : (piece.rows - 1) * piece.stride + last;
}

bool TensorInfo::is_in_file() const {
  if (converted || transposed || !row_order.empty() || pieces.size() > 1) return false;
  return pieces.empty() || pieces.front().stride == row_bytes || rows <= 1;
}

std::uint64_t TensorInfo::stored_row(std::uint64_t row) const {
  const std::size_t run = row_order.size();
  return run == 0 ? row : row / run * run + row_order[row % run];
}

std::string TensorInfo::quoted() const {
  if (part_of.empty()) return format_text("\"{}\"", name);
  return format_text("\"{}\" (rows of \"{}\")", name, part_of);
}

namespace {

/// Rows [first, first + n) of a piece.
Status read_piece(const TensorSource& source, const Piece& piece, std::uint64_t row_bytes, std::uint64_t first,
                  std::uint64_t n, std::byte* out) {
  const std::uint64_t at = piece.offset + first * piece.stride;
  if (piece.stride == row_bytes) return source.read(piece.file, at, {out, n * row_bytes});
  for (std::uint64_t i = 0; i < n; ++i)
    QINFER_TRY(source.read(piece.file, at + i * piece.stride, {out + i * row_bytes, row_bytes}));
  return Status();
}

/// Columns [first, first + n) of a piece whose columns are the rows of the tensor. A few stored rows are read at a
/// time, so that each of the rows that they become gets some neighbouring values.
Status read_columns(const TensorSource& source, const TensorInfo& tensor, std::uint64_t first, std::uint64_t n,
                    std::byte* out, const ParallelFor& parallel_for) {
  constexpr std::uint64_t kAtOnce = 64;
  const Piece& piece = tensor.pieces.front();
  const std::uint64_t value = tensor.row_bytes / piece.rows, width = n * value;
  std::vector<std::byte> block(std::min(kAtOnce, piece.rows) * width);
  for (std::uint64_t row = 0; row < piece.rows; row += kAtOnce) {
    const std::uint64_t count = std::min(kAtOnce, piece.rows - row);
    for (std::uint64_t i = 0; i < count; ++i)
      QINFER_TRY(source.read(piece.file, piece.offset + (row + i) * piece.stride + first * value,
                             {block.data() + i * width, width}));
    parallel_for(static_cast<std::int64_t>(n), [&](std::int64_t begin, std::int64_t end) {
      for (auto j = static_cast<std::uint64_t>(begin); j < static_cast<std::uint64_t>(end); ++j)
        for (std::uint64_t i = 0; i < count; ++i)
          std::copy_n(block.data() + i * width + j * value, value, out + j * tensor.row_bytes + (row + i) * value);
    });
  }
  return Status();
}

/// Puts the rows of one run into the model's order, in place.
void reorder_run(const RowOrder& order, std::byte* run, std::uint64_t row_bytes) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    // Where the row that belongs at i is now: one that was stored before i was exchanged when its place was filled.
    std::size_t from = order[i];
    while (from < i) from = order[from];
    if (from != i) std::swap_ranges(run + i * row_bytes, run + (i + 1) * row_bytes, run + from * row_bytes);
  }
}

}  // namespace

Status TensorSource::read_rows(const TensorInfo& tensor, std::uint64_t first, std::uint64_t n, std::byte* out,
                               const ParallelFor& parallel_for) const {
  const std::uint64_t row_bytes = tensor.row_bytes, end = first + n;
  if (tensor.transposed) return read_columns(*this, tensor, first, n, out, parallel_for);
  std::uint64_t before = 0;  // rows of the pieces before
  for (const Piece& piece : tensor.pieces) {
    const std::uint64_t from = std::max(first, before), to = std::min(end, before + piece.rows);
    if (from < to)
      QINFER_TRY(read_piece(*this, piece, row_bytes, from - before, to - from, out + (from - first) * row_bytes));
    before += piece.rows;
  }
  if (tensor.row_order.empty()) return Status();
  const std::uint64_t run_bytes = tensor.row_order.size() * row_bytes;
  parallel_for(static_cast<std::int64_t>(n / tensor.row_order.size()), [&](std::int64_t begin, std::int64_t last) {
    for (std::int64_t i = begin; i < last; ++i)
      reorder_run(tensor.row_order, out + static_cast<std::uint64_t>(i) * run_bytes, row_bytes);
  });
  return Status();
}

std::string shape_text(std::span<const std::uint64_t> shape) { return format_text("[{}]", join_texts(shape, ", ")); }

Status check_stored(const TensorSource& source, const TensorNeed& need, const TensorInfo& tensor) {
  std::vector<std::uint64_t> expected = {static_cast<std::uint64_t>(need.cols)};
  if (!need.is_vector) expected.insert(expected.begin(), static_cast<std::uint64_t>(need.rows));
  const auto malformed = [&](const std::string& what) {
    return error_at(Code::format, static_cast<std::int64_t>(tensor.offset()), "{}: tensor {} {}",
                    source.file_name(tensor.file()), tensor.quoted(), what);
  };
  if (tensor.shape != expected)
    return malformed(
        format_text("has the shape {}, the model asks for {}", shape_text(tensor.shape), shape_text(expected)));
  if (need.is_vector && !is_plain(tensor.encoding))
    return malformed(format_text("is {}, expected {}", encoding_name(tensor.encoding), encoding_names()));
  return Status();
}

WeightRole weight_role(Role role) {
  for (const GlobalRow& row : kGlobalRows)
    if (row.role == role) return row.kernel;
  for (const RoleRow& row : kLayerRoles)
    if (row.role == role) return row.kernel;
  __builtin_unreachable();
}

TensorNeed need_of(const ModelSpec& spec, const TensorId& id) {
  for (const GlobalRow& row : kGlobalRows)
    if (row.role == id.role) return {id, row.is_vector, row.rows(spec), columns(spec, id.role)};
  const LayerSpec& layer = spec.layers[id.layer];
  for (const RoleRow& row : kLayerRoles)
    if (row.role == id.role) return {id, row.is_vector, row.rows(spec, layer), row.cols(spec, layer)};
  __builtin_unreachable();
}

std::vector<TensorNeed> tensors_of(const ModelSpec& spec) {
  std::vector<TensorNeed> needs;
  add_global_needs(spec, false, needs);
  for (std::uint32_t i = 0; i < spec.n_layers(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    for (const RoleRow& row : kLayerRoles) {
      if (!row.wanted(spec, layer)) continue;
      TensorNeed need{
          {row.role, static_cast<std::uint16_t>(i)}, row.is_vector, row.rows(spec, layer), row.cols(spec, layer)};
      const bool by_expert = layer.ffn.has_experts() && is_of_expert(row.role);
      if (!by_expert) needs.push_back(need);
      for (std::uint32_t e = 0; by_expert && e < layer.ffn.experts; ++e) {
        need.id.expert = static_cast<std::uint16_t>(e);
        needs.push_back(need);
      }
    }
  }
  add_global_needs(spec, true, needs);
  return needs;
}

}  // namespace qinfer::model
