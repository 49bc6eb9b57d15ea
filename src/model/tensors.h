// The tensors of a model by what they are for, and what a source of them answers: where a tensor is stored and how.
//
// The engine and the loader know roles, never names: which name a file gives to a role, and what must be done with the
// stored values so that they become the model's, is the business of the source (src/source).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/encoding.h"
#include "base/status.h"
#include "kernel_set.h"
#include "model/spec.h"
#include "platform/file.h"

namespace qinfer::model {

/// What a tensor is for: first those that a model has once, then those of a layer.
enum class Role : std::uint8_t {
  embedding,
  final_norm,
  lm_head,
  final_norm_bias,
  positions,         ///< a row for each position
  types,             ///< a row for each token type
  distances,         ///< a row for each bucket of distances, with a number for each head
  classifier_dense,  ///< this and the rest up to the norm before attention: see ClassifierSpec
  classifier_dense_bias,
  classifier_norm,
  classifier_norm_bias,
  classifier_out,
  classifier_out_bias,
  dense_first,  ///< this and the next three: of the layers after pooling
  dense_second,
  dense_first_bias,
  dense_second_bias,
  attn_norm,       ///< before attention
  attn_post_norm,  ///< of what attention gives, before it is added
  ffn_norm,        ///< before the feed-forward network
  ffn_post_norm,   ///< of what the network gives, before it is added
  q_norm,
  k_norm,
  attn_norm_bias,
  ffn_norm_bias,
  q_bias,
  k_bias,
  v_bias,
  o_bias,
  gate_bias,
  up_bias,
  down_bias,
  q,
  k,
  v,
  o,
  gate,  ///< this and the next two: of an expert, in a layer that has some
  up,
  down,
  router,         ///< chooses among the experts: a row for each
  shared_router,  ///< one row: weights the network that is shared by all tokens
  shared_gate,
  shared_up,
  shared_down
};
inline constexpr std::size_t kRoles = static_cast<std::size_t>(Role::shared_down) + 1;
inline constexpr std::size_t kGlobalRoles = static_cast<std::size_t>(Role::attn_norm);

/// The matrices and norms that may have a bias, and what it is for.
struct BiasRow {
  Role matrix, bias;
};
inline constexpr BiasRow kBiases[] = {{Role::q, Role::q_bias},
                                      {Role::k, Role::k_bias},
                                      {Role::v, Role::v_bias},
                                      {Role::o, Role::o_bias},
                                      {Role::gate, Role::gate_bias},
                                      {Role::up, Role::up_bias},
                                      {Role::down, Role::down_bias},
                                      {Role::attn_norm, Role::attn_norm_bias},
                                      {Role::ffn_norm, Role::ffn_norm_bias},
                                      {Role::final_norm, Role::final_norm_bias},
                                      {Role::classifier_norm, Role::classifier_norm_bias},
                                      {Role::classifier_dense, Role::classifier_dense_bias},
                                      {Role::classifier_out, Role::classifier_out_bias},
                                      {Role::dense_first, Role::dense_first_bias},
                                      {Role::dense_second, Role::dense_second_bias}};

/// Matrix and bias of each layer after pooling.
inline constexpr BiasRow kDenseRoles[kMaxDense] = {{Role::dense_first, Role::dense_first_bias},
                                                   {Role::dense_second, Role::dense_second_bias}};

/// None where no model has one.
constexpr std::optional<Role> bias_of(Role matrix) {
  for (const BiasRow& row : kBiases)
    if (row.matrix == matrix) return row.bias;
  return std::nullopt;
}

/// Small matrices that are read row by row, as the file has them, and multiplied by no kernel set.
constexpr bool is_row_table(Role role) {
  return role == Role::positions || role == Role::types || role == Role::distances || role == Role::classifier_dense ||
         role == Role::classifier_out;
}

inline constexpr std::uint16_t kNoExpert = 0xffff;
struct TensorId {
  Role role = Role::embedding;
  std::uint16_t layer = 0;           ///< of the roles of a layer
  std::uint16_t expert = kNoExpert;  ///< whose tensor it is, in layers that have experts
  bool operator==(const TensorId&) const = default;
};

/// A tensor that a model needs. A vector (norm weight or bias) has one row.
struct TensorNeed {
  TensorId id;
  bool is_vector = false;
  std::int64_t rows = 1, cols = 0;
};

/// "q of layer 3", "gate of expert 5 of layer 3", for messages and fingerprints.
std::string describe(const TensorId& id);

/// The sizes of a tensor of a layer that the spec has, be the tensor needed or not.
TensorNeed need_of(const ModelSpec& spec, const TensorId& id);

/// What a kernel set makes of a matrix. One that is the LM head, too, is WeightRole::tied.
kernels::WeightRole weight_role(Role role);

/// All tensors that a spec needs, in the order in which they are loaded. Tied embeddings are one tensor.
std::vector<TensorNeed> tensors_of(const ModelSpec& spec);

/// What makes the stored values of a tensor those of the model.
enum class Transform : std::uint8_t {
  none,
  add_one  ///< a norm's weights are stored less one
};

/// What a tensor brings with it that was packed for a kernel set already.
struct PackedForm {
  kernels::WeightLayout layout = kernels::WeightLayout::row_major;
  kernels::PackInfo info;
  Encoding original = Encoding::f32;  ///< what the checkpoint had that was packed
  std::int64_t rows = 0, cols = 0;    ///< of the matrix, without what the layout pads
};

/// The order in which the model has the rows of a matrix, or the values of a vector: of each run of size() rows, such
/// as a head, its row i is the stored row [i] of that run. A permutation, of which whole runs make up the tensor;
/// empty: as stored.
using RowOrder = std::vector<std::uint16_t>;

/// Rows of a file, evenly apart.
struct Piece {
  std::uint32_t file = 0;    ///< which of the source's files
  std::uint64_t offset = 0;  ///< of its first row in that file
  std::uint64_t rows = 0;
  std::uint64_t stride = 0;  ///< bytes from the beginning of a row to that of the next one
};

/// Where a tensor is stored and how. A row is what the outermost dimension of its shape counts: of a matrix its rows,
/// of a vector single values, of a packed matrix its tiles. A tensor may be a range of rows of a larger one that the
/// file has, such as the queries of one that holds queries, keys and values: shape and rows are those of the range.
struct TensorInfo {
  std::string name;                  ///< as its file calls it; of a range of rows, the name of a separate tensor
  std::vector<std::uint64_t> shape;  ///< as stored, outermost dimension first
  Encoding encoding = Encoding::f32;
  Transform transform = Transform::none;
  std::uint64_t rows = 0, row_bytes = 0;  ///< as TensorSource::read_rows() gives them
  std::vector<Piece> pieces = {};         ///< the stored rows, piece after piece
  RowOrder row_order = {};                ///< which stored row each row of the model is
  bool transposed = false;                ///< the pieces have rows of values that each belong to another row: row i is
                                          ///< the i-th value of each of them
  bool converted = false;                 ///< no file has these bytes: the source makes them while it reads
  std::optional<PackedForm> packed = {};  ///< of a packed model
  std::string part_of = {};               ///< the tensor of the file that it is rows of; empty: it is a whole one
  std::string packed_as = {};             ///< what a packed model calls it, where that is not the name

  /// One piece with all rows of its shape, which are `bytes` bytes from `offset` of a file on. If these are no whole
  /// rows, as those of a quantised vector, all of it is one row.
  void set_bytes(std::uint32_t file, std::uint64_t offset, std::uint64_t bytes);
  /// Narrows a matrix of one piece, with `cols` columns and its rows side by side, to n rows from `first` on. A vector
  /// of one piece: to n values; `cols` is 1.
  void keep_rows(std::uint64_t first, std::uint64_t n, std::uint64_t cols);
  /// Narrows a tensor of one piece to n columns from `first` on of matrix `matrix` of several [rows][cols], which are
  /// the rows of this one.
  void keep_columns(std::uint64_t matrix, std::uint64_t rows, std::uint64_t cols, std::uint64_t first, std::uint64_t n);

  std::uint64_t bytes() const { return rows * row_bytes; }
  /// Where its first piece is; of a tensor that is_in_file(), where it is.
  std::uint32_t file() const { return pieces.front().file; }
  std::uint64_t offset() const { return pieces.front().offset; }
  /// Bytes from there to the end of its piece, of a tensor with one.
  std::uint64_t extent() const;
  /// Whether a file has the tensor's bytes one after the other in the model's order, so that it can be used mapped.
  /// True where no place is known.
  bool is_in_file() const;
  /// The stored row that is row `row` of the model.
  std::uint64_t stored_row(std::uint64_t row) const;

  /// The tensor of the file that holds it.
  const std::string& stored_name() const { return part_of.empty() ? name : part_of; }
  /// In quotes, for messages; of a range of rows, with the tensor that it is a part of.
  std::string quoted() const;
};

/// Calls body(begin, end) for parts of [0, n), on several threads at once, and returns when all are done.
using ParallelFor =
    std::function<void(std::int64_t n, const std::function<void(std::int64_t begin, std::int64_t end)>& body)>;

/// The tensors of a model, wherever they are stored.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// What the source calls a tensor, be it there or not.
  virtual std::string name(const TensorId& id) const = 0;
  /// TensorInfo::row_order of a tensor, be it there or not.
  virtual RowOrder row_order(const TensorId&) const { return {}; }
  /// QINFER_E_NOT_FOUND, naming the tensor as the file would, if there is none; QINFER_E_UNSUPPORTED for an encoding
  /// that is not known.
  virtual Result<TensorInfo> find(const TensorId& id) const = 0;
  /// What messages call one of the files.
  virtual std::string_view file_name(std::uint32_t file) const = 0;
  /// One of the files, mapped whole; further calls return the same mapping.
  virtual Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t file) = 0;
  /// Copies bytes of one of the files.
  virtual Status read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const = 0;
  /// Copies rows [first, first + n) of a tensor, in the model's order: both are whole runs of its row_order. May be
  /// called from several threads at once; `parallel_for` helps one of them, and is called on its thread.
  virtual Status read_rows(const TensorInfo& tensor, std::uint64_t first, std::uint64_t n, std::byte* out,
                           const ParallelFor& parallel_for) const;
  /// QINFER_E_FORMAT if the source has a checksum of the tensor and these are not the bytes that it was made of.
  virtual Status verify(const TensorInfo& tensor, std::span<const std::byte> data) const = 0;
};

/// "[2, 3]", for messages.
std::string shape_text(std::span<const std::uint64_t> shape);

/// QINFER_E_FORMAT unless a tensor that is not packed has the shape that is needed, and is plain if it is a vector.
/// What reads its rows relies on that.
Status check_stored(const TensorSource& source, const TensorNeed& need, const TensorInfo& tensor);

}  // namespace qinfer::model
