// Tensors whose rows come in another order than the model's, or are scattered over files: with every kernel set the
// weights are, to the bit, those of a checkpoint that has them in order, and the plan counts what is taken.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "model/weights.h"
#include "source/model_source.h"
#include "support/c_api.h"
#include "support/targets.h"

using namespace qinfer;
using namespace qinfer::test;
using model::Role;

namespace {

/// The order of a head of 8 in which interleaved pairs of rotary embedding become halves.
const model::RowOrder kOrder = {0, 2, 4, 6, 1, 3, 5, 7};

bool is_reordered(Role role) {
  return role == Role::q || role == Role::k || role == Role::q_bias || role == Role::k_bias || role == Role::embedding;
}

/// The number of a file that exists only in memory.
constexpr std::uint32_t kMemoryFile = 1000;

/// A checkpoint of which it says that the rows of queries, keys and the embedding come in another order. `scattered`:
/// the second half of every tensor's rows is in a file in memory.
class Reordered final : public model::TensorSource {
 public:
  explicit Reordered(const std::string& path, bool scattered = false) : source_(open(path)) {
    if (!scattered) return;
    for (const model::TensorNeed& need : model::tensors_of(source_->spec())) scatter(need.id);
  }

  const model::ModelSpec& spec() const { return source_->spec(); }
  std::string name(const model::TensorId& id) const override { return source_->name(id); }
  model::RowOrder row_order(const model::TensorId& id) const override {
    return is_reordered(id.role) ? kOrder : model::RowOrder();
  }
  Result<model::TensorInfo> find(const model::TensorId& id) const override {
    auto info = source_->find(id);
    if (!info.ok()) return info;
    const auto scattered = pieces_.find(info.value().name);
    if (scattered != pieces_.end()) info.value().pieces = scattered->second;
    info.value().row_order = row_order(id);
    return info;
  }
  std::string_view file_name(std::uint32_t file) const override { return source_->file_name(file); }
  Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t file) override { return source_->map(file); }
  Status read(std::uint32_t file, std::uint64_t offset, std::span<std::byte> out) const override {
    if (file != kMemoryFile) return source_->read(file, offset, out);
    REQUIRE(offset + out.size() <= memory_.size());
    std::memcpy(out.data(), memory_.data() + offset, out.size());
    return Status();
  }
  Status verify(const model::TensorInfo&, std::span<const std::byte>) const override { return Status(); }

 private:
  static std::unique_ptr<source::ModelSource> open(const std::string& path) {
    auto source = source::ModelSource::open(path, {});
    REQUIRE(source.ok());
    return std::move(source.value());
  }

  /// Three pieces: the first half of the rows where they are; then those of the other half, which go to the file in
  /// memory: one quarter side by side, and the rest every second row of what is there.
  void scatter(const model::TensorId& id) {
    auto found = source_->find(id);
    REQUIRE(found.ok());
    const model::TensorInfo& info = found.value();
    const std::uint64_t rows = info.rows, bytes = info.row_bytes, half = rows / 2, quarter = rows / 4;
    if (quarter == 0) return;
    std::vector<std::byte> stored(info.bytes());
    REQUIRE(source_->read(info.file(), info.offset(), stored).ok());
    const auto append = [&](std::uint64_t row, std::uint64_t n) {
      const auto from = stored.begin() + static_cast<std::ptrdiff_t>(row * bytes);
      memory_.insert(memory_.end(), from, from + static_cast<std::ptrdiff_t>(n * bytes));
    };
    memory_.resize(memory_.size() + 3, std::byte{0xff});  // nothing is aligned
    const std::uint64_t second = memory_.size();
    append(half, quarter);
    const std::uint64_t third = memory_.size();
    for (std::uint64_t row = half + quarter; row < rows; ++row) {
      append(row, 1);
      memory_.resize(memory_.size() + bytes + 1, std::byte{0xff});
    }
    pieces_[info.name] = {{info.file(), info.offset(), half, bytes},
                          {kMemoryFile, second, quarter, bytes},
                          {kMemoryFile, third, rows - half - quarter, 2 * bytes + 1}};
  }

  std::unique_ptr<source::ModelSource> source_;
  std::map<std::string, std::vector<model::Piece>> pieces_;  ///< by the names of tensors
  std::vector<std::byte> memory_;
};

/// Stores the rows of queries and keys so that kOrder is what puts them right.
void store_in_another_order(const ModelDir& dir, const TinySpec& spec) {
  write_changed(dir, spec, [](std::vector<TinyTensor>& tensors) {
    for (TinyTensor& tensor : tensors) {
      const auto is = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
      if (!is("q_proj") && !is("k_proj") && !is("embed_tokens")) continue;
      const std::size_t rows = tensor.shape[0], row_bytes = tensor.data.size() / rows;
      std::string stored = tensor.data;
      for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t at = row / kOrder.size() * kOrder.size() + kOrder[row % kOrder.size()];
        stored.replace(at * row_bytes, row_bytes, tensor.data, row * row_bytes, row_bytes);
      }
      REQUIRE(stored != tensor.data);
      tensor.data = stored;
    }
  });
}

/// Counts what is out.
struct Ledger {
  std::map<void*, std::size_t> blocks;
  std::size_t live = 0, peak = 0;
  static void* alloc(std::size_t size, std::size_t alignment, void* user) {
    auto* self = static_cast<Ledger*>(user);
    void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    std::memset(p, 0, size);
    self->blocks[p] = size;
    self->live += size;
    self->peak = std::max(self->peak, self->live);
    return p;
  }
  static void release(void* p, std::size_t, std::size_t, void* user) {
    auto* self = static_cast<Ledger*>(user);
    self->live -= self->blocks[p];
    self->blocks.erase(p);
    std::free(p);
  }
};

/// Loads all tensors and gives their bytes, one after the other.
std::string weights_of(model::TensorSource& source, const model::ModelSpec& spec, const kernels::KernelSet& kernels,
                       const model::WeightsOptions& options, bool reordered) {
  auto planned = model::plan_weights(spec, source, std::nullopt, {}, kernels, options);
  REQUIRE(planned.ok());
  const model::WeightsPlan& plan = planned.value();
  std::uint64_t done_at_end = 0, total_at_end = 0, read = 0;
  const model::LoadProgress progress = [&](std::uint64_t done, std::uint64_t total) {
    done_at_end = done;
    total_at_end = total;
    return true;
  };
  const model::ParallelFor in_two = [](std::int64_t n, const auto& body) {
    body(n / 2, n);
    if (n / 2 > 0) body(0, n / 2);
  };
  Ledger ledger;
  const platform::Allocator allocator{Ledger::alloc, Ledger::release, &ledger};
  std::string bytes;
  {
    auto loaded = model::load_weights(plan, source, kernels, options, allocator, spec, in_two, progress);
    REQUIRE(loaded.ok());
    CHECK(ledger.live == plan.private_bytes);
    CHECK(ledger.peak == plan.private_bytes + plan.staging_bytes);
    for (const model::WeightItem& item : plan.items) {
      const model::TensorId& id = item.need.id;
      INFO(model::describe(id));
      const bool other_order = reordered && is_reordered(id.role);
      CHECK(item.stored.row_order.empty() != other_order);
      CHECK_FALSE((item.mapped && other_order));
      const void* data = loaded.value().vector(id.role, id.layer);
      if (!item.need.is_vector) data = loaded.value().matrix(id).data;
      REQUIRE(data != nullptr);
      bytes.append(static_cast<const char*>(data), item.bytes);
      read += item.stored.bytes();
    }
  }
  CHECK(ledger.live == 0);
  CHECK(done_at_end == total_at_end);
  CHECK(done_at_end >= read);  // a matrix may be packed twice
  return bytes;
}

/// Loads both sources on every kernel set, with each of the formats, from mapped and from read files; what is loaded
/// must be the same bytes.
void check_same_weights(source::ModelSource& plain, model::TensorSource& other, std::vector<const char*> formats,
                        bool reordered) {
  const model::ModelSpec& spec = plain.spec();
  for (const std::string& target : usable_targets())
    for (const char* format : formats)
      for (const bool use_mmap : {true, false}) {
        INFO("as \"" << format << "\" on " << target << ", mmap " << use_mmap);
        const kernels::KernelSet& kernels = row_of(target).get();
        model::WeightsOptions options;
        options.use_mmap = use_mmap;
        options.verify = true;
        options.weight_format = find_encoding(format);
        auto possible = model::plan_weights(spec, other, std::nullopt, {}, kernels, options);
        if (!possible.ok()) {
          CHECK(options.weight_format.has_value());  // a set of one format
          continue;
        }
        const std::string want = weights_of(plain, spec, kernels, options, false);
        CHECK((weights_of(other, spec, kernels, options, reordered) == want));
      }
}

/// Compares a checkpoint in order with one whose rows are stored in another, in each type.
void check_reordered(bool scattered) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    TinySpec spec;
    spec.architecture = "Qwen2ForCausalLM";  // which has biases
    spec.heads = 10;                         // 80 rows: three tiles, the last one half empty
    spec.kv_heads = 5;
    spec.vocab = 304;
    spec.dtype = dtype;
    const ModelDir in_order(spec), dir(spec);
    store_in_another_order(dir, spec);
    auto plain = source::ModelSource::open(in_order.path(), {});
    REQUIRE(plain.ok());
    Reordered source(dir.path(), scattered);
    INFO(dtype_name(dtype));
    check_same_weights(*plain.value(), source, {"", "f32"}, true);
  }
}

}  // namespace

TEST_CASE("rows in another order give the weights of a checkpoint that has them in order", "[source][memory]") {
  check_reordered(false);
}

TEST_CASE("a tensor in pieces gives the weights of one that is whole", "[source][memory]") { check_reordered(true); }

TEST_CASE("a tensor that is read in several steps gives the weights of one that is mapped", "[source][memory]") {
  TinySpec spec;
  spec.architecture = "Qwen2ForCausalLM";
  spec.hidden = 64;
  spec.vocab = 140'008;  // 17.9 MB of bf16: two steps, the last one no whole tiles, but whole runs
  spec.dtype = DType::bf16;
  spec.layers = 1;
  spec.tied = true;
  const ModelDir in_order(spec), dir(spec);
  store_in_another_order(dir, spec);
  auto plain = source::ModelSource::open(in_order.path(), {});
  REQUIRE(plain.ok());
  for (const bool scattered : {false, true}) {
    Reordered source(dir.path(), scattered);
    auto info = source.find({Role::embedding});
    REQUIRE(info.ok());
    CHECK(model::step_rows(info.value()) < info.value().rows);
    INFO("scattered " << scattered);
    check_same_weights(*plain.value(), source, {""}, true);
  }
}

TEST_CASE("a plan without tensors counts the order of rows like one with them", "[source][plan]") {
  TinySpec spec;
  spec.architecture = "Qwen2ForCausalLM";
  spec.dtype = DType::bf16;
  const ModelDir dir(spec);
  const Reordered source(dir.path());
  for (const std::string& target : usable_targets())
    for (const bool use_mmap : {true, false}) {
      INFO(target << ", mmap " << use_mmap);
      const kernels::KernelSet& kernels = row_of(target).get();
      model::WeightsOptions options;
      options.use_mmap = use_mmap;
      auto with = model::plan_weights(source.spec(), source, std::nullopt, {}, kernels, options);
      auto without = model::plan_weights(source.spec(), source, Encoding::bf16, {}, kernels, options);
      REQUIRE(with.ok());
      REQUIRE(without.ok());
      CHECK(with.value().private_bytes == without.value().private_bytes);
      CHECK(with.value().mapped_bytes == without.value().mapped_bytes);
      CHECK(with.value().staging_bytes == without.value().staging_bytes);
      CHECK(with.value().n_params == without.value().n_params);
    }
}
