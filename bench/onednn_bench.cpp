// onednn_bench: the operations that qinfer_ops measures, as a program would have oneDNN compute them; one line of JSON
// for each (items.h). Threads are OpenMP's: set OMP_NUM_THREADS, OMP_PROC_BIND and OMP_PLACES.
//
//   onednn-plain      weights as a checkpoint holds them, [outputs][inputs] bf16, given to the primitive as they are
//   onednn-prepacked  format "any": reordered once, before the clock starts, into what the primitive asks for
// Activations are bf16, sums f32: by dot products of bf16 where the CPU has AVX512_BF16 or AMX ("bf16_dot_products" in
// the first line; its kernels then consist of vdpbf16ps or tiles), otherwise widened to f32. Plain weights are copied
// into another order within every call, some blocks at a time.
//
// In the feed-forward network SiLU and the product with `up` are post-operations of the gate's primitive, so that
// nothing is stored in between; experts of one step are computed one after the other. sdpa is two batched products
// around a softmax, on bf16; its causal form adds a mask to the scores by a primitive of its own: as a post-operation
// of the product it falls back to oneDNN's reference code, hundreds of times slower.
#include <cmath>
#include <exception>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "items.h"
#include "random.h"

namespace qinfer::bench {
namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

constexpr auto kBf16 = memory::data_type::bf16;
constexpr auto kF32 = memory::data_type::f32;
constexpr std::int64_t kColdBytes = std::int64_t{512} << 20;

class Library {
 public:
  /// Memory that the library allocates, filled with random values.
  memory random(const memory::desc& desc, float deviation) {
    memory m(desc, engine_);
    auto* data = static_cast<std::uint16_t*>(m.get_data_handle());
    Random random(1);
    for (std::size_t i = 0; i < desc.get_size() / 2; ++i) data[i] = f32_to_bf16(deviation * random.normal());
    return m;
  }
  memory empty(const memory::desc& desc) const { return memory(desc, engine_); }

  memory reordered(memory& from, const memory::desc& to) {
    memory out(to, engine_);
    dnnl::reorder(from, out).execute(stream_, from, out);
    stream_.wait();
    return out;
  }
  memory copy(memory& from) { return reordered(from, from.get_desc()); }

  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

/// x [rows][inputs] times weights, with post-operations and a result of the given type.
class Product {
 public:
  Product(Library& library, std::int64_t rows, std::int64_t inputs, std::int64_t outputs, memory::data_type result,
          bool prepacked, const dnnl::post_ops& post = {}) {
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(post);
    const memory::desc plain({inputs, outputs}, kBf16, memory::format_tag::ba);
    const memory::desc any({inputs, outputs}, kBf16, memory::format_tag::any);
    const dnnl::matmul::desc desc(memory::desc({rows, inputs}, kBf16, memory::format_tag::ab), prepacked ? any : plain,
                                  memory::desc({rows, outputs}, result, memory::format_tag::ab));
    descriptor_ = dnnl::matmul::primitive_desc(desc, attributes, library.engine());
    primitive_ = dnnl::matmul(descriptor_);
  }

  /// Weights in the form that this primitive reads.
  memory weights(Library& library, std::int64_t inputs, std::int64_t outputs) const {
    memory plain = library.random(memory::desc({inputs, outputs}, kBf16, memory::format_tag::ba), 0.02f);
    if (descriptor_.weights_desc() == plain.get_desc()) return plain;
    return library.reordered(plain, descriptor_.weights_desc());
  }
  memory result(const Library& library) const { return library.empty(descriptor_.dst_desc()); }
  void execute(Library& library, const Arguments& arguments) const { primitive_.execute(library.stream(), arguments); }

 private:
  dnnl::matmul::primitive_desc descriptor_;
  dnnl::matmul primitive_;
};

/// Seconds of call(i) for i = first .. first + count - 1.
template <typename Call>
double timed(Library& library, std::int64_t first, std::int64_t count, Call call) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = first; i < first + count; ++i) call(i);
  library.stream().wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

const char* who(bool prepacked) { return prepacked ? "onednn-prepacked" : "onednn-plain"; }

memory rows_of(Library& library, std::int64_t rows, std::int64_t width) {
  return library.random(memory::desc({rows, width}, kBf16, memory::format_tag::ab), 1);
}

void matmul(Library& library, Items& items, const MatmulShape& shape, std::int64_t rows, bool prepacked) {
  const std::string name = item_name("matmul", shape.inputs, shape.outputs, rows) + who(prepacked);
  if (!items.wanted(name)) return;
  const Product product(library, rows, shape.inputs, shape.outputs, kF32, prepacked);
  std::vector<memory> weights = {product.weights(library, shape.inputs, shape.outputs)};
  const std::int64_t bytes = 2 * shape.inputs * shape.outputs, copies = (kColdBytes + bytes - 1) / bytes;
  while (static_cast<std::int64_t>(weights.size()) < copies) weights.push_back(library.copy(weights[0]));
  Arguments arguments = {{DNNL_ARG_SRC, rows_of(library, rows, shape.inputs)}, {DNNL_ARG_DST, product.result(library)}};
  items.measure(name, product_work(1, shape.inputs, shape.outputs, rows), [&](std::int64_t first, std::int64_t count) {
    return timed(library, first, count, [&](std::int64_t i) {
      arguments[DNNL_ARG_WEIGHTS] = weights[static_cast<std::size_t>(i % copies)];
      product.execute(library, arguments);
    });
  });
}

/// down(silu(gate(x)) * up(x)) of the expert's shape: three primitives, which serve all experts.
class Ffn {
 public:
  struct Weights {
    memory gate, up, down;
  };

  Ffn(Library& library, std::int64_t rows, bool prepacked)
      : gate_(library, rows, kExpertHidden, kExpertWidth, kBf16, prepacked, activation(rows)),
        up_(library, rows, kExpertHidden, kExpertWidth, kBf16, prepacked),
        down_(library, rows, kExpertWidth, kExpertHidden, kF32, prepacked),
        ups_(up_.result(library)),
        activations_(gate_.result(library)) {}
  Ffn(const Ffn&) = delete;  // the steps refer to its primitives
  Ffn& operator=(const Ffn&) = delete;

  Weights weights(Library& library) const {
    return {gate_.weights(library, kExpertHidden, kExpertWidth), up_.weights(library, kExpertHidden, kExpertWidth),
            down_.weights(library, kExpertWidth, kExpertHidden)};
  }

  /// Adds an expert with rows of its own.
  void add(Library& library, const Weights& weights, std::int64_t rows) {
    const memory x = rows_of(library, rows, kExpertHidden);
    steps_.emplace_back(&up_, Arguments{{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weights.up}, {DNNL_ARG_DST, ups_}});
    steps_.emplace_back(&gate_, Arguments{{DNNL_ARG_SRC, x},
                                          {DNNL_ARG_WEIGHTS, weights.gate},
                                          {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, ups_},
                                          {DNNL_ARG_DST, activations_}});
    steps_.emplace_back(&down_, Arguments{{DNNL_ARG_SRC, activations_},
                                          {DNNL_ARG_WEIGHTS, weights.down},
                                          {DNNL_ARG_DST, down_.result(library)}});
  }

  void execute(Library& library) const {
    for (const auto& [product, arguments] : steps_) product->execute(library, arguments);
  }

 private:
  static dnnl::post_ops activation(std::int64_t rows) {
    dnnl::post_ops activate;
    activate.append_eltwise(1, dnnl::algorithm::eltwise_swish, 1, 0);
    activate.append_binary(dnnl::algorithm::binary_mul,
                           memory::desc({rows, kExpertWidth}, kBf16, memory::format_tag::ab));
    return activate;
  }

  Product gate_, up_, down_;
  memory ups_, activations_;
  std::vector<std::pair<const Product*, Arguments>> steps_;
};

void ffn(Library& library, Items& items, std::int64_t rows, bool prepacked) {
  const std::string name = item_name("ffn", kExpertHidden, kExpertWidth, rows) + who(prepacked);
  if (!items.wanted(name)) return;
  Ffn network(library, rows, prepacked);
  network.add(library, network.weights(library), rows);
  items.measure(name, product_work(3, kExpertHidden, kExpertWidth, rows), [&](std::int64_t first, std::int64_t count) {
    return timed(library, first, count, [&](std::int64_t) { network.execute(library); });
  });
}

/// The experts of one step, one after the other, each on all threads.
void moe_ffn(Library& library, Items& items, std::int64_t experts) {
  std::vector<Ffn::Weights> weights;  // made once: the primitives for all numbers of rows take them as they are
  for (const std::int64_t rows : kExpertRows) {
    const std::string name = moe_name(experts, rows) + who(false);
    if (!items.wanted(name)) continue;
    Ffn network(library, rows, false);
    if (weights.empty()) weights.push_back(network.weights(library));
    while (static_cast<std::int64_t>(weights.size()) < experts)
      weights.push_back({library.copy(weights[0].gate), library.copy(weights[0].up), library.copy(weights[0].down)});
    for (const Ffn::Weights& expert : weights) network.add(library, expert, rows);
    items.measure(name, moe_work(experts, rows), [&](std::int64_t first, std::int64_t count) {
      return timed(library, first, count, [&](std::int64_t) { network.execute(library); });
    });
  }
}

/// One of the two batched products of attention.
dnnl::matmul::primitive_desc batched_product(const Library& library, const memory::desc& a, const memory::desc& b,
                                             const memory::desc& c, const dnnl::primitive_attr& attributes) {
  return {dnnl::matmul::desc(a, b, c), attributes, library.engine()};
}

/// -inf above the diagonal, for all sequences alike.
memory causal_mask(const Library& library) {
  memory mask = library.empty({{1, kSdpaKeys, kSdpaKeys}, kBf16, memory::format_tag::abc});
  auto* data = static_cast<std::uint16_t*>(mask.get_data_handle());
  for (std::int64_t i = 0; i < kAllKeys; ++i)
    data[i] = f32_to_bf16(i % kSdpaKeys > i / kSdpaKeys ? -std::numeric_limits<float>::infinity() : 0.0f);
  return mask;
}

/// The primitives of attention in the order of their execution, with what each reads and writes.
std::vector<std::pair<dnnl::primitive, Arguments>> sdpa_steps(Library& library, std::int64_t head_size, bool causal) {
  using Tag = memory::format_tag;
  const memory::desc rows({kSdpaBatch, kSdpaKeys, head_size}, kBf16, Tag::abc);
  const memory::desc keys({kSdpaBatch, head_size, kSdpaKeys}, kBf16, Tag::acb);  // stored like rows
  const memory::desc scores({kSdpaBatch, kSdpaKeys, kSdpaKeys}, kBf16, Tag::abc);
  dnnl::primitive_attr scaled;
  scaled.set_output_scales(0, {static_cast<float>(1 / std::sqrt(static_cast<double>(head_size)))});
  const memory s = library.empty(scores);
  std::vector<std::pair<dnnl::primitive, Arguments>> steps;
  steps.emplace_back(
      dnnl::matmul(batched_product(library, rows, keys, scores, scaled)),
      Arguments{
          {DNNL_ARG_SRC, library.random(rows, 1)}, {DNNL_ARG_WEIGHTS, library.random(keys, 1)}, {DNNL_ARG_DST, s}});
  if (causal) {
    const memory mask = causal_mask(library);
    const dnnl::binary::desc add(dnnl::algorithm::binary_add, scores, mask.get_desc(), scores);
    steps.emplace_back(dnnl::binary({add, library.engine()}),
                       Arguments{{DNNL_ARG_SRC_0, s}, {DNNL_ARG_SRC_1, mask}, {DNNL_ARG_DST, s}});
  }
  const dnnl::softmax_forward::desc softmax(dnnl::prop_kind::forward_inference, scores, 2);
  steps.emplace_back(dnnl::softmax_forward({softmax, library.engine()}),
                     Arguments{{DNNL_ARG_SRC, s}, {DNNL_ARG_DST, s}});
  steps.emplace_back(
      dnnl::matmul(batched_product(library, scores, rows, rows, {})),
      Arguments{{DNNL_ARG_SRC, s}, {DNNL_ARG_WEIGHTS, library.random(rows, 1)}, {DNNL_ARG_DST, library.empty(rows)}});
  return steps;
}

void sdpa(Library& library, Items& items, std::int64_t head_size, bool causal) {
  const std::string name = sdpa_name(head_size, causal) + "onednn";
  if (!items.wanted(name)) return;
  const auto steps = sdpa_steps(library, head_size, causal);
  items.measure(name, sdpa_work(head_size, causal ? kCausalKeys : kAllKeys),
                [&](std::int64_t first, std::int64_t count) {
                  return timed(library, first, count, [&](std::int64_t) {
                    for (const auto& [primitive, arguments] : steps) primitive.execute(library.stream(), arguments);
                  });
                });
}

/// Whether products of bf16 are computed by instructions for them (AVX512_BF16 or AMX) and not widened to f32.
bool uses_bf16_dot_products() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

void run(const ItemOptions& options) {
  const dnnl_version_t* version = dnnl_version();
  std::printf("{\"version\": \"%d.%d.%d\", \"bf16_dot_products\": %s}\n", version->major, version->minor,
              version->patch, uses_bf16_dot_products() ? "true" : "false");
  Library library;
  Items items(options);
  for (const bool prepacked : {false, true}) {
    for (const std::int64_t rows : kExpertRows) ffn(library, items, rows, prepacked);
    for (const MatmulShape& shape : kMatmuls)
      for (const std::int64_t rows : shape.rows) matmul(library, items, shape, rows, prepacked);
  }
  for (const std::int64_t experts : kMoeExperts) moe_ffn(library, items, experts);
  for (const std::int64_t head_size : kSdpaHeadSizes)
    for (const bool causal : {false, true}) sdpa(library, items, head_size, causal);
}

}  // namespace
}  // namespace qinfer::bench

int main(int argc, char** argv) {
  try {
    qinfer::bench::run(qinfer::bench::parse_item_options(argc, argv));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "onednn_bench: %s\n", e.what());
    return 1;
  }
}
