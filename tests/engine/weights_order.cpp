// Tensors whose rows come in another order than the model's: with every kernel set the weights are, to the bit, those
// of a checkpoint that has them in order, and the plan counts what is taken.
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
  return role == Role::q || role == Role::k || role == Role::q_bias || role == Role::k_bias;
}

/// A checkpoint of which it says that the rows of queries and keys come in another order.
class Reordered final : public model::TensorSource {
 public:
  explicit Reordered(const std::string& path) : source_(open(path)) {}

  const model::ModelSpec& spec() const { return source_->spec(); }
  std::string name(const model::TensorId& id) const override { return source_->name(id); }
  model::RowOrder row_order(const model::TensorId& id) const override {
    return is_reordered(id.role) ? kOrder : model::RowOrder();
  }
  Result<model::TensorInfo> find(const model::TensorId& id) const override {
    auto info = source_->find(id);
    if (info.ok()) info.value().row_order = row_order(id);
    return info;
  }
  std::string_view file_name(std::uint32_t file) const override { return source_->file_name(file); }
  Result<std::shared_ptr<platform::MappedFile>> map(std::uint32_t file) override { return source_->map(file); }
  Status read(const model::TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const override {
    return source_->read(tensor, offset, out);
  }
  Status verify(const model::TensorInfo&, std::span<const std::byte>) const override { return Status(); }

 private:
  static std::unique_ptr<source::ModelSource> open(const std::string& path) {
    auto source = source::ModelSource::open(path, {});
    REQUIRE(source.ok());
    return std::move(source.value());
  }
  std::unique_ptr<source::ModelSource> source_;
};

/// Stores the rows of queries and keys so that kOrder is what puts them right.
void store_in_another_order(const ModelDir& dir, const TinySpec& spec) {
  write_changed(dir, spec, [](std::vector<TinyTensor>& tensors) {
    for (TinyTensor& tensor : tensors) {
      const auto is = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
      if (!is("q_proj") && !is("k_proj")) continue;
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
      read += item.stored.bytes;
    }
  }
  CHECK(ledger.live == 0);
  CHECK(done_at_end == total_at_end);
  CHECK(done_at_end >= read);  // a matrix may be packed twice
  return bytes;
}

}  // namespace

TEST_CASE("rows in another order give the weights of a checkpoint that has them in order", "[source][memory]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    TinySpec spec;
    spec.architecture = "Qwen2ForCausalLM";  // which has biases
    spec.heads = 10;                         // 80 rows: three tiles, the last one half empty
    spec.kv_heads = 5;
    spec.dtype = dtype;
    const ModelDir in_order(spec), dir(spec);
    store_in_another_order(dir, spec);
    auto plain = source::ModelSource::open(in_order.path(), {});
    REQUIRE(plain.ok());
    Reordered source(dir.path());
    for (const std::string& target : usable_targets())
      for (const char* format : {"", "f32"})
        for (const bool use_mmap : {true, false}) {
          INFO(dtype_name(dtype) << " as \"" << format << "\" on " << target << ", mmap " << use_mmap);
          const kernels::KernelSet& kernels = row_of(target).get();
          model::WeightsOptions options;
          options.use_mmap = use_mmap;
          options.verify = true;
          options.weight_format = find_encoding(format);
          auto possible = model::plan_weights(source.spec(), source, std::nullopt, {}, kernels, options);
          if (!possible.ok()) {
            CHECK(options.weight_format.has_value());  // a set of one format
            continue;
          }
          const std::string want = weights_of(*plain.value(), source.spec(), kernels, options, false);
          CHECK((weights_of(source, source.spec(), kernels, options, true) == want));
        }
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
