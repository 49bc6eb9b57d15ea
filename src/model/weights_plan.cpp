// How each tensor that a spec needs will be kept in memory. See weights.h.
#include <algorithm>
#include <map>
#include <numeric>

#include "model/weights.h"

namespace qinfer::model {
namespace {

using kernels::WeightFormat;
using kernels::WeightLayout;
using kernels::WeightRole;

/// What a kernel set makes of a matrix, which the role is one of. `both`: the embedding is the LM head, too.
WeightRole kernel_role(Role role, bool both) {
  return role == Role::embedding && both ? WeightRole::tied : weight_role(role);
}

/// `separate`: tied embeddings are kept a second time, as rows. The first stage of a model holds them as the whole
/// model does, so that it looks up the same values; the last one has them as the LM head alone.
bool serves_as_head(const ModelSpec& spec, const TensorId& id, bool separate) {
  return id.role == Role::embedding && spec.whole_gives_logits() && spec.tied_embeddings &&
         (!separate || spec.takes_hidden());
}

class Planner {
 public:
  Planner(const ModelSpec& spec, const TensorSource& source, std::optional<Encoding> assumed,
          std::string_view packed_for, const kernels::KernelSet& kernels, const WeightsOptions& options)
      : spec_(spec),
        source_(source),
        assumed_(assumed),
        packed_for_(packed_for),
        kernels_(kernels),
        options_(options) {}

  Result<WeightsPlan> run() {
    if (spec_.tied_embeddings && options_.separate_embedding && !packed_for_.empty())
      return error(Code::invalid_argument,
                   "QINFER_LOAD_EMBED_ROWS: a packed model has tied embeddings once, in the LM head's layout");
    const std::vector<TensorNeed> needs = tensors_of(spec_);
    plan_.items.reserve(needs.size() + 1);
    for (const TensorNeed& need : needs) QINFER_TRY(add(need, need.id));
    // Looked up in the file's own rows, and multiplied with as the LM head.
    if (splits_embedding()) QINFER_TRY(add({{Role::lm_head}, false, spec_.n_vocab, spec_.n_embd}, {Role::embedding}));
    if (!packed_for_.empty()) QINFER_TRY(check_gates());
    lay_out();
    return std::move(plan_);
  }

 private:
  bool splits_embedding() const {
    return spec_.gives_logits() && spec_.tied_embeddings && options_.separate_embedding && !spec_.takes_hidden();
  }

  /// `stored`: the tensor of the source that it is made of.
  Status add(const TensorNeed& need, const TensorId& stored) {
    WeightItem item;
    item.need = need;
    item.serves_as_head = serves_as_head(spec_, need.id, options_.separate_embedding);
    if (assumed_) {
      item.stored.name = source_.name(stored);
      item.stored.encoding = *assumed_;
      item.stored.row_order = source_.row_order(stored);
      item.stored.rows = static_cast<std::uint64_t>(need.is_vector ? need.cols : need.rows);
      item.stored.row_bytes = encoded_bytes(*assumed_, need.is_vector ? 1 : static_cast<std::uint64_t>(need.cols));
    } else {
      QINFER_ASSIGN(item.stored, source_.find(stored));
    }
    if (item.stored.packed) {
      QINFER_TRY(check_packed(item));
      QINFER_TRY(accept_packed(item));
    } else {
      if (!assumed_) QINFER_TRY(check_stored(source_, item.need, item.stored));
      QINFER_TRY(choose_format(item));
    }
    plan_.items.push_back(std::move(item));
    return Status();
  }

  /// Of a packed tensor.
  static std::vector<std::uint64_t> expected_shape(const WeightItem& item, WeightLayout layout) {
    if (item.need.is_vector) return {static_cast<std::uint64_t>(item.need.cols)};
    const kernels::StoredShape shape =
        kernels::weight_shape({item.stored.encoding, layout}, item.need.rows, item.need.cols);
    return {shape.lengths, shape.lengths + shape.n};
  }

  /// An error about a tensor of a file.
  template <typename... Args>
  Status malformed(const WeightItem& item, fmt::format_string<Args...> format, Args&&... args) const {
    return error_at(Code::format, static_cast<std::int64_t>(item.stored.offset()), "{}: tensor {} {}",
                    source_.file_name(item.stored.file()), item.stored.quoted(),
                    format_text(format, std::forward<Args>(args)...));
  }

  Status check_shape(const WeightItem& item, const std::vector<std::uint64_t>& expected) const {
    if (item.stored.shape == expected) return Status();
    return malformed(item, "has the shape {}, the model asks for {}", shape_text(item.stored.shape),
                     shape_text(expected));
  }

  Status check_packed(const WeightItem& item) const {
    const PackedForm& packed = *item.stored.packed;
    const WeightFormat format{item.stored.encoding, packed.layout};
    if (item.need.is_vector && item.stored.encoding != Encoding::f32)
      return malformed(item, "is {}, expected f32", encoding_name(item.stored.encoding));
    const std::uint16_t block = encoding_traits(item.stored.encoding).block_values;
    if (item.need.cols % block != 0)
      return malformed(item, "is {}, in blocks of {}, the model asks for rows of {}",
                       encoding_name(item.stored.encoding), block, item.need.cols);
    if (packed.layout == WeightLayout::squares32)
      return error(Code::unsupported,
                   "{}: tensor {} was packed as {} in squares, as earlier versions did: pack the "
                   "checkpoint again",
                   source_.file_name(item.stored.file()), item.stored.quoted(), encoding_name(item.stored.encoding));
    QINFER_TRY(check_shape(item, expected_shape(item, packed.layout)));
    if (packed.rows != item.need.rows || packed.cols != item.need.cols)
      return malformed(item, "is described as [{}, {}], the model asks for [{}, {}]", packed.rows, packed.cols,
                       item.need.rows, item.need.cols);
    const std::uint64_t alignment = kernels::weight_alignment(format);
    if (item.stored.offset() % alignment != 0)
      return malformed(item, "begins at byte {}, expected a multiple of {}", item.stored.offset(), alignment);
    if (packed.layout == WeightLayout::row_major && packed.info.scale != 1)
      return malformed(item, "has the scale {}, rows have 1", packed.info.scale);
    return Status();
  }

  /// The kernel set must want a matrix in just the format that it has, or multiply it fastest so.
  Status accept_packed(WeightItem& item) const {
    item.format = {item.stored.encoding, item.stored.packed->layout};
    if (item.need.is_vector) return Status();
    const Encoding encoding = options_.weight_format.value_or(item.format.encoding);
    const Encoding* wanted = is_plain(encoding) ? &encoding : nullptr;
    WeightFormat format;
    const WeightRole role = kernel_role(item.need.id.role, item.serves_as_head);
    const bool possible = kernels_.weight_format(role, item.stored.packed->original, wanted, options_.exact, format);
    if (possible && format == item.format) return Status();
    if (possible && kernels_.pack_format != nullptr) {
      kernels_.pack_format(role, format);
      if (format == item.format) return Status();
    }
    return error(Code::unsupported,
                 "tensor {} was packed as {} for kernel set {}; {}{} does not take it so: pack the checkpoint again",
                 item.stored.quoted(), encoding_name(item.format.encoding), packed_for_, kernels_.name,
                 options_.exact ? " with QINFER_RUNTIME_EXACT" : "");
  }

  Status choose_format(WeightItem& item) const {
    if (item.need.is_vector) return Status();
    const Encoding* wanted = options_.weight_format ? &*options_.weight_format : nullptr;
    const WeightRole role = kernel_role(item.need.id.role, item.serves_as_head);
    if (kernels_.weight_format(role, item.stored.encoding, wanted, options_.exact, item.format)) {
      if (options_.pack && kernels_.pack_format != nullptr) kernels_.pack_format(role, item.format);
      return Status();
    }
    return error(Code::invalid_argument, "kernel set {} cannot hold tensor {} ({}) as {}{}", kernels_.name,
                 item.stored.quoted(), encoding_name(item.stored.encoding),
                 wanted != nullptr ? encoding_name(*wanted) : "any format it has",
                 options_.exact ? " exactly, as QINFER_RUNTIME_EXACT asks" : "");
  }

  /// Gate and up of a network are multiplied together: of one encoding, they must have one layout. A set packs them so,
  /// but a packed file may say anything.
  Status check_gates() const {
    std::map<std::pair<std::uint16_t, std::uint16_t>, const WeightItem*> gates;
    for (const WeightItem& item : plan_.items) {
      const TensorId& id = item.need.id;
      const bool shared = id.role == Role::shared_gate || id.role == Role::shared_up;
      const bool is_gate = id.role == Role::gate || id.role == Role::shared_gate;
      if (!is_gate && id.role != Role::up && id.role != Role::shared_up) continue;
      // kNoExpert is no expert's number, nor is the one before it: there are fewer.
      const std::pair key{id.layer, static_cast<std::uint16_t>(shared ? kNoExpert - 1 : id.expert)};
      const WeightItem*& other = gates[key];
      if (other == nullptr) {
        other = &item;
      } else if (other->format.encoding == item.format.encoding && other->format != item.format) {
        return error(Code::format, "tensors {} and {} have different layouts, {} and {}, expected one for both",
                     other->stored.quoted(), item.stored.quoted(), kernels::weight_layout_name(other->format.layout),
                     kernels::weight_layout_name(item.format.layout));
      }
    }
    return Status();
  }

  /// Where each tensor will be, and the sums.
  void lay_out() {
    ActiveSum params(spec_), bytes(spec_);
    for (WeightItem& item : plan_.items) {
      const bool is_vector = item.need.is_vector;
      const std::uint64_t elements =
          static_cast<std::uint64_t>(item.need.rows) * static_cast<std::uint64_t>(item.need.cols);
      const bool packed = item.stored.packed.has_value();
      const bool as_in_file = !is_vector && item.format == WeightFormat{item.stored.encoding, WeightLayout::row_major};
      const bool reads_file = options_.use_mmap && item.stored.is_in_file();
      item.mapped = reads_file && (as_in_file || packed);
      item.bytes =
          is_vector ? elements * sizeof(float) : kernels::weight_bytes(item.format, item.need.rows, item.need.cols);
      // An embedding that is split is one tensor of the file, listed twice.
      const bool again = splits_embedding() && item.need.id.role == Role::lm_head;
      if (!again) plan_.n_params += elements;
      if (!again) params.add(item.need.id, elements);
      const bool looked_up =
          !is_vector && item.need.id.role == Role::embedding && (!item.serves_as_head || spec_.gives_hidden());
      if (!looked_up) bytes.add(item.need.id, item.bytes);
      if (item.mapped) {
        if (!again || !plan_.items.front().mapped) plan_.mapped_bytes += item.bytes;
        continue;
      }
      item.offset = round_up(plan_.private_bytes, platform::Buffer::kAlignment);
      plan_.private_bytes = item.offset + item.bytes;
      // What changes its form is converted out of the mapped file, or, where that does not have it as it is, out of a
      // buffer that it passes through in steps.
      if (!as_in_file && !packed && !reads_file)
        plan_.staging_bytes =
            std::max(plan_.staging_bytes, std::min(step_rows(item.stored), item.stored.rows) * item.stored.row_bytes);
    }
    plan_.n_active_params = params.active();
    plan_.active_bytes = bytes.active();
    plan_.expert_bytes = bytes.experts();
  }

  const ModelSpec& spec_;
  const TensorSource& source_;
  std::optional<Encoding> assumed_;
  std::string_view packed_for_;
  const kernels::KernelSet& kernels_;
  const WeightsOptions& options_;
  WeightsPlan plan_;
};

}  // namespace

std::uint64_t step_rows(const TensorInfo& tensor) {
  constexpr std::uint64_t kStep = 16 << 20, kTile = kernels::kPackRows;
  const std::uint64_t whole = std::lcm(std::max<std::uint64_t>(tensor.row_order.size(), 1), kTile);
  return round_up(std::max<std::uint64_t>(kStep / std::max<std::uint64_t>(tensor.row_bytes, 1), 1), whole);
}

std::uint64_t ActiveSum::active() const {
  std::uint64_t sum = of_all_tokens_;
  for (std::size_t i = 0; i < of_experts_.size(); ++i) {
    const FfnSpec& ffn = spec_.layers[i].ffn;
    if (ffn.has_experts()) sum += of_experts_[i] / ffn.experts * ffn.top_k;
  }
  return sum;
}

std::uint64_t ActiveSum::experts() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t amount : of_experts_) sum += amount;
  return sum;
}

Result<WeightsPlan> plan_weights(const ModelSpec& spec, const TensorSource& source, std::optional<Encoding> assumed,
                                 std::string_view packed_for, const kernels::KernelSet& kernels,
                                 const WeightsOptions& options) {
  return Planner(spec, source, assumed, packed_for, kernels, options).run();
}

bool holds_well(const ModelSpec& spec, const TensorSource& source, std::optional<Encoding> assumed,
                const kernels::KernelSet& kernels, const WeightsOptions& options,
                const std::function<bool(Encoding)>& accepts) {
  const Encoding* wanted = options.weight_format ? &*options.weight_format : nullptr;
  for (const TensorNeed& need : tensors_of(spec)) {
    if (need.is_vector) continue;
    Encoding stored = assumed.value_or(Encoding::f32);
    if (!assumed) {
      const auto tensor = source.find(need.id);
      if (!tensor.ok()) return false;
      stored = tensor.value().encoding;
    }
    if (!accepts(stored)) return false;
    const bool may_round = !spec.causal && is_plain(stored);
    const auto held = [&](WeightRole role) {
      WeightFormat format;
      return kernels.weight_format(role, stored, wanted, options.exact, format) &&
             (may_round || holds_exactly(stored, format.encoding));
    };
    const bool both = serves_as_head(spec, need.id, options.separate_embedding);
    if (!held(kernel_role(need.id.role, both))) return false;
    // An embedding that is split is an LM head besides.
    if (!both && serves_as_head(spec, need.id, false) && !held(WeightRole::lm_head)) return false;
  }
  return true;
}

bool multiplies_quantised(const ModelSpec& spec, const TensorSource& source, std::optional<Encoding> assumed,
                          const kernels::KernelSet& kernels, const WeightsOptions& options) {
  const Encoding* wanted = options.weight_format ? &*options.weight_format : nullptr;
  for (const TensorNeed& need : tensors_of(spec)) {
    if (need.is_vector) continue;
    const auto tensor = source.find(need.id);
    if (!assumed && !tensor.ok()) continue;
    const Encoding stored = assumed ? *assumed : tensor.value().encoding;
    const auto multiplied = [&](WeightRole role) {
      WeightFormat format;
      return role != WeightRole::embedding && kernels.weight_format(role, stored, wanted, options.exact, format) &&
             !is_plain(format.encoding);
    };
    const bool both = serves_as_head(spec, need.id, options.separate_embedding);
    if (multiplied(kernel_role(need.id.role, both))) return true;
    if (!both && serves_as_head(spec, need.id, false) && multiplied(WeightRole::lm_head)) return true;
  }
  return false;
}

}  // namespace qinfer::model
