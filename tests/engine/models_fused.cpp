// Models whose files hold several matrices in one tensor, or of whose heads only a part is turned, beside what must be
// the same: Llama with the same values in tensors of their own.
#include <cmath>

#include "model/rope.h"
#include "source/model_source.h"
#include "support/c_api.h"
#include "support/targets.h"

using namespace qinfer;
using namespace qinfer::test;
using model::Role;

namespace {

TinySpec fused(DType dtype, double rotary_factor = 1) {
  TinySpec spec;
  spec.architecture = "Phi3ForCausalLM";
  spec.hidden = 42;
  spec.heads = 6;
  spec.kv_heads = 3;  // keys begin at row 48, values at row 72: in the middle of a tile of 32
  spec.ffn = 53;      // and up at row 53
  spec.dtype = dtype;
  spec.rotary_factor = rotary_factor;
  return spec;
}

TinySpec separate(TinySpec spec) {
  spec.architecture = "LlamaForCausalLM";
  return spec;
}

std::vector<float> logits_on(const std::string& target, const std::string& path, std::uint32_t flags,
                             qinfer_memory& memory) {
  auto options = sized<qinfer_load_options>();
  options.flags = flags;
  const Model model = load_model(make_runtime(2, target.c_str()), path, &options);
  memory = sized<qinfer_memory>();
  REQUIRE_OK(qinfer_model_get_memory(model.get(), &memory, &err));
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(40, info.n_vocab));
  eval(session);
  return last_logits(session, info.n_vocab);
}

std::string plan_map(const std::string& path, const char* target, std::uint32_t flags) {
  auto runtime = sized<qinfer_runtime_options>();
  runtime.cpu_target = target;
  runtime.n_threads = 2;
  auto load = sized<qinfer_load_options>();
  load.flags = flags;
  std::string json(1 << 20, '\0');
  std::size_t n = 0;
  REQUIRE_OK(
      qinfer_model_plan_map(path.c_str(), &runtime, &load, nullptr, nullptr, json.data(), json.size(), &n, &err));
  json.resize(n);
  return json;
}

std::unique_ptr<source::ModelSource> open_source(const std::string& path) {
  auto source = source::ModelSource::open(path, {});
  REQUIRE(source.ok());
  return std::move(source.value());
}

std::string fingerprint_of(const ModelDir& dir) {
  auto fingerprints = open_source(dir.path())->fingerprints({});
  REQUIRE(fingerprints.ok());
  return fingerprints.value().model;
}

}  // namespace

TEST_CASE("fused tensors give the bits of separate ones, and take the same memory", "[models][packed][plan]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const ModelDir one(fused(dtype)), other(separate(fused(dtype)));
    for (const std::string& target : usable_targets()) {
      INFO(dtype_name(dtype) << " on " << target);
      const std::string packed = one.file("packed-" + target);
      REQUIRE_OK(
          qinfer_model_pack(make_runtime(2, target.c_str()).get(), one.path().c_str(), nullptr, packed.c_str(), &err));
      for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_LOAD_NO_MMAP}, std::uint32_t{QINFER_LOAD_VERIFY}}) {
        qinfer_memory taken, expected;
        const std::vector<float> want = logits_on(target, other.path(), flags, expected);
        CHECK(logits_on(target, one.path(), flags, taken) == want);
        CHECK(taken.weights_mapped == expected.weights_mapped);
        CHECK(taken.weights_private == expected.weights_private);
        CHECK(taken.load_peak == expected.load_peak);
        CHECK(logits_on(target, packed, flags, taken) == want);
        nlohmann::json map = nlohmann::json::parse(plan_map(one.path(), target.c_str(), flags));
        const nlohmann::json lone = nlohmann::json::parse(plan_map(one.file("config.json"), target.c_str(), flags));
        nlohmann::json plain = nlohmann::json::parse(plan_map(other.path(), target.c_str(), flags));
        for (std::size_t i : {0u, 1u}) CHECK(map["regions"][i] == lone["regions"][i]);  // weights
        map["model"].erase("architecture");
        plain["model"].erase("architecture");
        CHECK(map == plain);  // the names of parts, too
      }
    }
  }
}

TEST_CASE("a part of a fused tensor is a tensor with a place of its own", "[source]") {
  const TinySpec spec = fused(DType::bf16);
  const ModelDir dir(spec);
  const auto source = open_source(dir.path());
  const auto find = [&](Role role) {
    auto info = source->find({role, 1});
    REQUIRE(info.ok());
    return info.value();
  };
  const model::TensorInfo q = find(Role::q), k = find(Role::k), v = find(Role::v), gate = find(Role::gate),
                          up = find(Role::up), down = find(Role::down);
  CHECK(k.name == "model.layers.1.self_attn.k_proj.weight");
  CHECK(k.stored_name() == "model.layers.1.self_attn.qkv_proj.weight");
  CHECK(up.stored_name() == "model.layers.1.mlp.gate_up_proj.weight");
  CHECK(down.stored_name() == down.name);
  CHECK(k.shape == std::vector<std::uint64_t>{24, 42});
  CHECK(q.offset() + q.bytes() == k.offset());
  CHECK(k.offset() + k.bytes() == v.offset());
  CHECK(k.bytes() == 24 * 42 * 2);
  CHECK(gate.offset() + gate.bytes() == up.offset());
  CHECK(up.bytes() == 53 * 42 * 2);
  std::uint64_t params = 0, stored = 0;
  for (const model::TensorNeed& need : model::tensors_of(source->spec()))
    params += static_cast<std::uint64_t>(need.rows * need.cols);
  for (const TinyTensor& tensor : tiny_tensors(spec)) stored += tensor.data.size() / 2;
  CHECK(params == stored);
  CHECK(load_model(make_runtime(), dir.path()) != nullptr);
  for (const Role role : {Role::q, Role::gate}) CHECK_FALSE(source->find({role, 77}).ok());
}

TEST_CASE("fingerprints of fused tensors", "[source]") {
  const TinySpec spec = fused(DType::bf16);
  const std::string one = fingerprint_of(ModelDir(spec));
  TinySpec sharded = spec;
  sharded.shards = 3;
  CHECK(fingerprint_of(ModelDir(sharded)) == one);
  CHECK(fingerprint_of(ModelDir(fused(DType::bf16, 0.5))) != one);
  for (const char* name : {"model.layers.1.self_attn.qkv_proj.weight", "model.layers.0.mlp.gate_up_proj.weight"}) {
    const ModelDir dir(spec);
    write_changed(dir, spec, [&](auto& tensors) { find_tensor(tensors, name).data.back() ^= 1; });
    CHECK(fingerprint_of(dir) != one);
  }
}

TEST_CASE("a head of which a part is turned: order, frequencies and table", "[models]") {
  using Order = std::vector<std::uint16_t>;
  CHECK(model::partial_rotary_order(8, 4) == Order{0, 1, 4, 5, 2, 3, 6, 7});
  CHECK(model::partial_rotary_order(16, 12) == Order{0, 1, 2, 3, 4, 5, 12, 13, 6, 7, 8, 9, 10, 11, 14, 15});
  CHECK(model::partial_rotary_order(8, 8) == Order{0, 1, 2, 3, 4, 5, 6, 7});
  model::RopeSpec rope;
  rope.rotary_dims = 4;
  rope.attention_factor = 1.25;
  const std::vector<float> frequencies = model::rope_frequencies(rope, 8);
  CHECK(frequencies == std::vector<float>{1, 0.01f, 0, 0});
  std::vector<float> table(3 * 8, 7.0f);
  model::fill_rope_table(rope, frequencies, 0, 3, table.data());
  for (std::size_t position = 0; position < 3; ++position) {
    const float* row = table.data() + position * 8;
    CHECK(row[0] == Approx(1.25 * std::cos(static_cast<double>(position))));
    for (const std::size_t i : {4u, 6u}) {
      CHECK(row[i] == 1);  // the attention factor is of what is turned
      CHECK(row[i + 1] == 0);
    }
  }
}

TEST_CASE("a head of which a part is turned: the same from its packed file, with and without mmap",
          "[models][packed]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const ModelDir dir(fused(dtype, 0.5)), whole(fused(dtype));
    for (const std::string& target : usable_targets()) {
      INFO(dtype_name(dtype) << " on " << target);
      const std::string packed = dir.file("packed-" + target);
      REQUIRE_OK(
          qinfer_model_pack(make_runtime(2, target.c_str()).get(), dir.path().c_str(), nullptr, packed.c_str(), &err));
      qinfer_memory memory;
      const std::vector<float> want = logits_on(target, dir.path(), 0, memory);
      CHECK(memory.weights_private > 0);  // queries and keys are not used in the file
      CHECK(logits_on(target, dir.path(), QINFER_LOAD_NO_MMAP | QINFER_LOAD_VERIFY, memory) == want);
      CHECK(logits_on(target, packed, 0, memory) == want);
      CHECK(memory.weights_private == 0);
      CHECK(logits_on(target, packed, QINFER_LOAD_NO_MMAP | QINFER_LOAD_VERIFY, memory) == want);
      CHECK(logits_on(target, whole.path(), 0, memory) != want);
    }
  }
}

TEST_CASE("Phi3 has a window where sliding_window says so, and none of the whole context", "[models]") {
  TinySpec spec = fused(DType::f32);
  const auto window_of = [](const ModelDir& dir) {
    return open_source(dir.path())->spec().layers[1].attention()->window;
  };
  const ModelDir dir(spec);
  CHECK(window_of(dir) == 0);
  for (const auto& [size, window] : {std::pair{20u, 20u}, {127u, 127u}, {128u, 0u}, {262144u, 0u}}) {
    spec.window = size;
    dir.write("config.json", tiny_config(spec).dump());
    CHECK(window_of(dir) == window);
    auto config = tiny_config(spec);
    config["layer_types"] = {"sliding_attention", "sliding_attention"};
    config["use_sliding_window"] = true;
    dir.write("config.json", config.dump());
    CHECK(window_of(dir) == window);
  }
  auto config = tiny_config(spec);
  config["sliding_window"] = nullptr;
  dir.write("config.json", config.dump());
  CHECK(window_of(dir) == 0);
}

TEST_CASE("fingerprints of mixtures tell each expert, fused or not", "[source]") {
  TinySpec spec;
  spec.architecture = "Qwen3MoeForCausalLM";
  spec.hidden = 256, spec.ffn = 600, spec.layers = 1;  // the matrices of five experts take more than 4 MiB
  spec.experts = 5;
  const std::string separate_one = fingerprint_of(ModelDir(spec));
  spec.top_k = 3;
  CHECK(fingerprint_of(ModelDir(spec)) != separate_one);
  spec.top_k = 2;
  for (const bool fused_experts : {false, true}) {
    spec.fused_experts = fused_experts;
    const ModelDir dir(spec);
    const std::string one = fingerprint_of(dir);
    for (int expert = 0; expert < 5; ++expert)
      for (const Role role : {Role::gate, Role::up, Role::down}) {
        INFO("fused " << fused_experts << " expert " << expert << " role " << static_cast<int>(role));
        write_changed(dir, spec, [&](auto& tensors) {
          const std::string place = "model.layers.0.mlp.experts.";
          const std::string of_one = place + std::to_string(expert) +
                                     (role == Role::gate ? ".gate"
                                      : role == Role::up ? ".up"
                                                         : ".down") +
                                     "_proj.weight";
          const std::string of_all = place + (role == Role::down ? "down_proj" : "gate_up_proj");
          TinyTensor& tensor = find_tensor(tensors, fused_experts ? of_all : of_one);
          // The whole matrix of the expert.
          const std::size_t rows = tensor.shape.size() == 3 ? tensor.shape[1] : tensor.shape[0];
          const std::size_t row = tensor.data.size() / rows / (fused_experts ? 5 : 1);
          const std::size_t n = (role == Role::down ? 256 : 600) * row;
          std::size_t first = fused_experts ? static_cast<std::size_t>(expert) * rows * row : 0;
          if (fused_experts && role == Role::up) first += n;
          for (std::size_t i = first; i < first + n; ++i) tensor.data[i] = static_cast<char>(tensor.data[i] ^ 1);
        });
        CHECK(fingerprint_of(dir) != one);
      }
  }
}

TEST_CASE("a checkpoint with an expert's tensors in both forms is refused", "[source]") {
  TinySpec spec;
  spec.architecture = "MixtralForCausalLM";
  spec.experts = 3, spec.fused_experts = true;
  const ModelDir dir(spec);
  load_model(make_runtime(), dir.path());
  for (const char* name :
       {"model.layers.1.block_sparse_moe.experts.2.w1.weight", "model.layers.0.block_sparse_moe.gate.weight"}) {
    write_changed(dir, spec, [&](auto& tensors) {
      const bool router = std::string(name).ends_with("gate.weight");
      tensors.push_back({name,
                         "F32",
                         {router ? 3u : spec.ffn, spec.hidden},
                         std::string((router ? 3u : spec.ffn) * spec.hidden * 4, '\0')});
    });
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, std::string("the checkpoint has both \"") + name, dir);
  }
}
