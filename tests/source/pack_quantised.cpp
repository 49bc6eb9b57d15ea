// Packing that quantises: what each matrix becomes and what is reported of it, the same file from any number of
// threads, and what is refused.
#include <cmath>
#include <map>

#include "base/quantise.h"
#include "source/quantisation.h"
#include "source/quantised_source.h"
#include "support/c_api.h"
#include "support/skip.h"
#include "support/targets.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

/// Rows of 256 and of 512 values; 16 layers, so that each of the rules for layers has some.
TinySpec wide(DType dtype = DType::bf16) {
  TinySpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.hidden = 256;
  spec.head_dim = 32;
  spec.heads = 8;
  spec.kv_heads = 2;
  spec.ffn = 512;
  spec.layers = 3;
  spec.dtype = dtype;
  return spec;
}

struct Line {
  std::string from, to;
  double bits = 0, error = 0;
};

/// What the log says of the matrices, by their names.
struct Report {
  std::map<std::string, Line> lines;
  static void take(std::int32_t level, const char* text, std::size_t n, void* user) {
    const std::string line(text, n);
    char name[200], from[20], to[20];
    unsigned long long values = 0;
    Line parsed;
    if (level != QINFER_LOG_INFO || !line.starts_with("quantised ")) return;
    const int found = std::sscanf(line.c_str(),
                                  "quantised %199[^:]: %llu values, %19s to %19[^,], %lf bits each, "
                                  "relative RMS error %lf",
                                  name, &values, from, to, &parsed.bits, &parsed.error);
    REQUIRE(found == 6);
    parsed.from = from;
    parsed.to = to;
    static_cast<Report*>(user)->lines[name] = parsed;
  }
};

Runtime logging_runtime(Report* report, std::uint32_t threads = 2, const std::string& target = "reference") {
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = threads;
  options.cpu_target = target.c_str();
  options.log_level = QINFER_LOG_INFO;
  options.log = report != nullptr ? Report::take : nullptr;
  options.log_user = report;
  qinfer_runtime* runtime = nullptr;
  REQUIRE_OK(qinfer_runtime_create(&options, &runtime, &err));
  return Runtime(runtime);
}

qinfer_status pack(const Runtime& runtime, const std::string& model, const std::string& out, const char* format,
                   qinfer_error& err) {
  auto options = sized<qinfer_load_options>();
  options.weight_format = format;
  return qinfer_model_pack(runtime.get(), model.c_str(), &options, out.c_str(), &err);
}

std::vector<float> logits_on(const Runtime& runtime, const std::string& path) {
  const Model model = load_model(runtime, path);
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(20));
  eval(session);
  return last_logits(session, 300);
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0, errors = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += double{a[i]} * a[i];
    errors += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  }
  return std::sqrt(errors / squares);
}

}  // namespace

TEST_CASE("Packing quantises each matrix as its mix says, and reports the error", "[packed][quantise]") {
  const ModelDir dir(wide());
  const std::string layer = "model.layers.";
  struct Mix {
    const char* name;
    std::map<std::string, std::string> some;  // encodings
    double largest_error;                     // of uniform values: step / sqrt(12), the step being 2 / levels
  };
  const Mix mixes[] = {{"q8_0", {{"lm_head.weight", "q8_0"}, {layer + "0.self_attn.q_proj.weight", "q8_0"}}, 0.01},
                       {"q4_0", {{"lm_head.weight", "q6_k"}, {"model.embed_tokens.weight", "q4_0"}}, 0.13},
                       {"q4_k_m",
                        {{"lm_head.weight", "q6_k"},
                         {"model.embed_tokens.weight", "q4_k"},
                         {layer + "0.self_attn.q_proj.weight", "q4_k"},
                         {layer + "0.self_attn.v_proj.weight", "q4_k"},
                         {layer + "1.mlp.down_proj.weight", "q4_k"},
                         {layer + "2.self_attn.v_proj.weight", "q6_k"},
                         {layer + "2.mlp.down_proj.weight", "q6_k"}},
                        0.12}};
  for (const Mix& mix : mixes) {
    INFO(mix.name);
    Report report;
    const Runtime runtime = logging_runtime(&report);
    REQUIRE_OK(pack(runtime, dir.path(), dir.file("packed"), mix.name, err));
    CHECK(report.lines.size() == 2 + 3 * 7);
    for (const auto& [name, to] : mix.some) {
      INFO(name);
      CHECK(report.lines[name].to == to);
    }
    for (const auto& [name, line] : report.lines) {
      INFO(name);
      const auto encoding = find_encoding(line.to);
      REQUIRE(encoding);
      CHECK(line.from == "bf16");
      CHECK(line.bits ==
            Approx(8.0 * encoding_traits(*encoding).block_bytes / encoding_traits(*encoding).block_values));
      CHECK(line.error > 0);
      CHECK(line.error < mix.largest_error);
    }
    // The model still is that model: errors of a few layers add up as squares, and the head has its own.
    const auto plain = logits_on(runtime, dir.path());
    CHECK(relative_difference(plain, logits_on(runtime, dir.file("packed"))) < 5 * mix.largest_error);
  }
}

TEST_CASE("A quantised file does not depend on the number of threads", "[packed][quantise]") {
  const ModelDir dir(wide(DType::f32));
  for (const char* mix : {"q8_0", "q4_k_m"}) {
    REQUIRE_OK(pack(logging_runtime(nullptr, 1), dir.path(), dir.file("one"), mix, err));
    REQUIRE_OK(pack(logging_runtime(nullptr, 3), dir.path(), dir.file("three"), mix, err));
    CHECK(dir.read("one") == dir.read("three"));
  }
}

TEST_CASE("Rows that are no whole blocks have other encodings, or stay as they are", "[quantise]") {
  using namespace qinfer::source;
  model::ModelSpec spec;
  spec.layers.resize(16);
  spec.causal = true;
  const auto encoding = [&](Quantisation mix, model::Role role, std::uint16_t layer, std::int64_t cols) {
    return quantised_encoding(mix, spec, {role, layer}, cols);
  };
  using model::Role;
  CHECK(encoding(Quantisation::q4_k_m, Role::q, 0, 256) == Encoding::q4_k);
  CHECK(encoding(Quantisation::q4_k_m, Role::q, 0, 576) == Encoding::q5_0);
  CHECK(encoding(Quantisation::q4_k_m, Role::v, 0, 576) == Encoding::q8_0);
  CHECK(encoding(Quantisation::q4_k_m, Role::q, 0, 172) == std::nullopt);
  CHECK(encoding(Quantisation::q4_0, Role::lm_head, 0, 96) == Encoding::q8_0);
  CHECK(encoding(Quantisation::q4_0, Role::router, 0, 256) == std::nullopt);
  spec.tied_embeddings = true;
  CHECK(encoding(Quantisation::q4_k_m, Role::embedding, 0, 256) == Encoding::q6_k);
  // Of 16 layers the first and last two, and of those between each third from 4 on.
  for (std::uint16_t i = 0; i < 16; ++i) {
    const bool more = i < 2 || i >= 14 || i == 4 || i == 7 || i == 10 || i == 13;
    INFO("layer " << i);
    CHECK(encoding(Quantisation::q4_k_m, Role::down, i, 256) == (more ? Encoding::q6_k : Encoding::q4_k));
    CHECK(encoding(Quantisation::q4_k_m, Role::up, i, 256) == Encoding::q4_k);
  }
  spec.layers[3].ffn.experts = 8;
  CHECK(encoding(Quantisation::q4_k_m, Role::k, 3, 256) == Encoding::q8_0);
  CHECK(encoding(Quantisation::q4_k_m, Role::o, 3, 256) == Encoding::q5_k);
  spec.architecture = "Phi3ForCausalLM";
  CHECK(encoding(Quantisation::q4_k_m, Role::v, 0, 256) == Encoding::q5_k);
  CHECK(encoding(Quantisation::q4_k_m, Role::v, 0, 96) == Encoding::q5_1);
}

TEST_CASE("Quantising refuses what it cannot do, by name", "[packed][quantise]") {
  const ModelDir dir(wide());
  const Runtime runtime = logging_runtime(nullptr);
  qinfer_error err;
  // Loading does not quantise.
  auto options = sized<qinfer_load_options>();
  options.weight_format = "q4_k_m";
  qinfer_model* model = nullptr;
  CHECK(qinfer_model_load(runtime.get(), dir.path().c_str(), &options, &model, &err) == QINFER_E_UNSUPPORTED);
  CHECK_THAT(err.message, contains("pack"));
  CHECK(pack(runtime, dir.path(), dir.file("packed"), "q4_k", err) == QINFER_E_UNSUPPORTED);
  // What is quantised already.
  const std::string mixed = QINFER_TEST_FIXTURES "/quant/mixed/model.gguf";
  CHECK(pack(runtime, mixed, dir.file("packed"), "q8_0", err) == QINFER_E_UNSUPPORTED);
  CHECK_THAT(err.message, contains("already"));
  // A value without a scale.
  std::vector<TinyTensor> tensors = tiny_tensors(wide());
  TinyTensor& up = find_tensor(tensors, "model.layers.1.mlp.up_proj.weight");
  up.data.replace(2 * (256 * 3 + 7), 2, "\xc0\x7f");
  dir.write_tensors(tensors);
  CHECK(pack(runtime, dir.path(), dir.file("packed"), "q8_0", err) == QINFER_E_FORMAT);
  CHECK_THAT(err.message, contains("element [3, 7]"));
  CHECK_THAT(err.message, contains("model.layers.1.mlp.up_proj.weight"));
}

TEST_CASE("Quantising can be cancelled by its flag and by its progress", "[packed][quantise]") {
  const ModelDir dir(wide());
  const Runtime runtime = logging_runtime(nullptr);
  auto options = sized<qinfer_load_options>();
  options.weight_format = "q8_0";
  options.progress = [](std::uint64_t, std::uint64_t, void*) { return 1; };
  qinfer_error err;
  CHECK(qinfer_model_pack(runtime.get(), dir.path().c_str(), &options, dir.file("x").c_str(), &err) ==
        QINFER_E_CANCELLED);
  const Cancel cancel = make_cancel();
  qinfer_cancel_request(cancel.get());
  options.progress = nullptr;
  options.cancel = cancel.get();
  CHECK(qinfer_model_pack(runtime.get(), dir.path().c_str(), &options, dir.file("x").c_str(), &err) ==
        QINFER_E_CANCELLED);
}
