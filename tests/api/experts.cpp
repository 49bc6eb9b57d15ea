// Mixtures of experts through the C ABI: how many parameters and bytes one token is computed with, by
// qinfer_model_info, qinfer_model_details, qinfer_memory and plan maps; and how often each expert was chosen, by
// qinfer_model_expert_counts.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <thread>

#include "support/c_api.h"
#include "support/targets.h"

using namespace qinfer::test;

// Members that 0.2 appended are outside all bytes, padding included, that programs built with 0.1 have.
static_assert(offsetof(qinfer_model_info, n_active_params) == 88 && offsetof(qinfer_model_info, kernel_set) == 112);
static_assert(offsetof(qinfer_model_info, embedding_dims) == 120 && sizeof(qinfer_model_info) == 144);
static_assert(offsetof(qinfer_memory, active_weight_bytes) == 120 && sizeof(qinfer_memory) == 136);

namespace {

using Counts = std::vector<std::uint64_t>;

std::string fixture(const std::string& name) { return QINFER_TEST_FIXTURES "/models/" + name; }

std::uint64_t sum_of(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }

qi::Runtime runtime_for(const std::string& target) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = 2;
  options.cpu_target = target.c_str();
  return qi::Runtime(options);
}

/// What a model of experts is, worked out by hand from its config.json.
struct Expected {
  const char* name;
  std::uint64_t n_params, n_active_params, embedding, of_experts;
  std::uint32_t n_experts, n_active, n_expert_layers, n_layers, expert_ffn, shared_ffn, n_ffn;
};
const Expected kExpected[] = {
    // Of a layer: norms 2 x 32 + 2 x 12, q 48 x 32, k and v 24 x 32 each, o 32 x 48, router 8 x 32, 8 experts of
    // 3 x 20 x 32 = 1920: 20312. Two of them, final norm 32, embedding and LM head 89 x 32 each. Active: 3 of 8.
    {"qwen3moe-f32", 2 * 20312 + 32 + 2 * 2848, 2 * (20312 - 5 * 1920) + 32 + 2 * 2848, 2848, 2 * 8 * 1920, 8, 3, 2, 2,
     20, 0, 0},
    // Norms 2 x 32, q 32 x 32, k and v 16 x 32 each, o 32 x 32, router 8 x 32, 8 experts of 3 x 28 x 32 = 2688.
    {"mixtral-f32", 2 * (64 + 3072 + 256 + 8 * 2688) + 32 + 2 * 2848, 2 * (64 + 3072 + 256 + 2 * 2688) + 32 + 2 * 2848,
     2848, 2 * 8 * 2688, 8, 2, 2, 2, 28, 0, 0},
    // Norms 2 x 32, q 32 x 32, k and v 16 x 32 each, their biases 64, o 32 x 32, router 6 x 32, shared network
    // 3 x 27 x 32 with its router 32, 6 experts of 3 x 20 x 32 = 1920.
    {"qwen2moe-f32", 2 * (64 + 3072 + 64 + 192 + 2592 + 32 + 6 * 1920) + 32 + 2 * 2848,
     2 * (64 + 3072 + 64 + 192 + 2592 + 32 + 4 * 1920) + 32 + 2 * 2848, 2848, 2 * 6 * 1920, 6, 4, 2, 2, 20, 27, 0},
    // Norms 2 x 24 + 2 x 12, q 24 x 24, k and v 12 x 24 each, o 24 x 24, in four of six layers a network 3 x 36 x 24,
    // in two a router 5 x 24 and 5 experts of 3 x 20 x 24 = 1440.
    {"qwen3moe-dense-f32", 6 * (72 + 1728) + 4 * 2592 + 2 * (120 + 5 * 1440) + 24 + 2 * 2136,
     6 * (72 + 1728) + 4 * 2592 + 2 * (120 + 2 * 1440) + 24 + 2 * 2136, 2136, 2 * 5 * 1440, 5, 2, 2, 6, 20, 0, 36},
};

void check_details(const qinfer_model_details& details, const Expected& expected) {
  REQUIRE(details.n_params == expected.n_params);
  REQUIRE(details.n_active_params == expected.n_active_params);
  REQUIRE(details.n_experts == expected.n_experts);
  REQUIRE(details.n_active_experts == expected.n_active);
  REQUIRE(details.n_expert_layers == expected.n_expert_layers);
  REQUIRE(details.n_layers == expected.n_layers);
  REQUIRE(details.expert_ffn == expected.expert_ffn);
  REQUIRE(details.shared_ffn == expected.shared_ffn);
  REQUIRE(details.n_ffn == expected.n_ffn);
  REQUIRE(details.reserved == 0);
}

/// Every tensor is f32 in its file and in memory, so bytes are four for each parameter.
void check_bytes(const qinfer_memory& memory, const Expected& expected) {
  REQUIRE(memory.active_weight_bytes == 4 * (expected.n_active_params - expected.embedding));
  REQUIRE(memory.expert_weight_bytes == 4 * expected.of_experts);
}

}  // namespace

TEST_CASE("Parameters and bytes of a token are those of the experts that it goes through", "[api][experts]") {
  for (const Expected& expected : kExpected) {
    INFO(expected.name);
    const std::string path = fixture(expected.name);
    check_details(qi::inspect(path), expected);
    check_details(qi::inspect(path + "/config.json"), expected);
    qi::Runtime runtime = runtime_for("reference");
    const qi::Model model = qi::Model::load(runtime, path);
    const qinfer_model_info info = model.info();
    REQUIRE(info.n_params == expected.n_params);
    REQUIRE(info.n_active_params == expected.n_active_params);
    REQUIRE(info.n_experts == expected.n_experts);
    REQUIRE(info.n_active_experts == expected.n_active);
    REQUIRE(info.n_expert_layers == expected.n_expert_layers);
    REQUIRE(info.expert_ffn == expected.expert_ffn);
    check_bytes(model.memory(), expected);
    auto options = qi::options<qinfer_runtime_options>();
    options.cpu_target = "reference";
    check_bytes(qi::plan(path, &options), expected);
    const auto sizes = nlohmann::json::parse(qi::plan_map(path)).at("model");
    REQUIRE(sizes.at("n_experts") == expected.n_experts);
    REQUIRE(sizes.at("n_active_experts") == expected.n_active);
    REQUIRE(sizes.at("n_expert_layers") == expected.n_expert_layers);
    REQUIRE(sizes.at("expert_ffn") == expected.expert_ffn);
    REQUIRE(sizes.at("shared_ffn") == expected.shared_ffn);
    REQUIRE(sizes.at("n_ffn") == expected.n_ffn);
  }
}

TEST_CASE("A model without experts is active as a whole, but for a table of rows", "[api][experts]") {
  for (const bool tied : {false, true}) {
    TinySpec spec;
    spec.tied = tied;
    const ModelDir dir{spec};
    const qi::ModelDetails details = qi::inspect(dir.path());
    REQUIRE(details.n_active_params == details.n_params);
    REQUIRE((details.n_experts | details.n_active_experts | details.n_expert_layers | details.expert_ffn) == 0);
    qi::Runtime runtime = runtime_for("reference");
    const std::uint64_t embedding = std::uint64_t{spec.vocab} * spec.hidden;
    for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_LOAD_EMBED_ROWS}}) {
      auto options = qi::options<qinfer_load_options>();
      options.flags = flags;
      const qi::Model model = qi::Model::load(runtime, dir.path(), options);
      REQUIRE(model.info().n_active_params == details.n_params);
      REQUIRE(model.memory().active_weight_bytes == 4 * (details.n_params - (tied ? 0 : embedding)));
      REQUIRE(model.memory().expert_weight_bytes == 0);
      REQUIRE(model.expert_counts(0).empty());
    }
  }
}

TEST_CASE("Active bytes are in the formats that the kernel set holds", "[api][experts]") {
  for (const std::string& target : usable_targets()) {
    INFO(target);
    qi::Runtime runtime = runtime_for(target);
    const std::string path = fixture("qwen3moe-f32");
    const qinfer_memory memory = qi::Model::load(runtime, path).memory();
    const std::uint64_t all = memory.weights_mapped + memory.weights_private;
    REQUIRE(memory.expert_weight_bytes > 0);
    REQUIRE(memory.active_weight_bytes > memory.expert_weight_bytes * 3 / 8);
    REQUIRE(memory.active_weight_bytes + memory.expert_weight_bytes * 5 / 8 < all);
    // A packed file holds the same formats, or those that a set packs to, which pad small matrices.
    const ModelDir place;
    qi::pack(runtime, path, place.file("packed"));
    const qinfer_memory packed = qi::Model::load(runtime, place.file("packed")).memory();
    const bool pads = row_of(target).get().pack_format != nullptr;
    REQUIRE((pads ? packed.active_weight_bytes > memory.active_weight_bytes
                  : packed.active_weight_bytes == memory.active_weight_bytes));
    REQUIRE((pads ? packed.expert_weight_bytes > memory.expert_weight_bytes
                  : packed.expert_weight_bytes == memory.expert_weight_bytes));
  }
}

TEST_CASE("Counts of experts are one for each token and expert that it was routed to", "[api][experts]") {
  constexpr std::size_t kTokens = 21;
  for (const std::string& target : usable_targets())
    for (const char* name :
         {"qwen3moe-f32", "mixtral-f32", "qwen2moe-f32", "qwen3moe-dense-f32", "qwen3moe-unnormed-bf16"}) {
      INFO(name << " on " << target);
      qi::Runtime runtime = runtime_for(target);
      const qi::Model at_once = qi::Model::load(runtime, fixture(name)),
                      one_by_one = qi::Model::load(runtime, fixture(name));
      const qinfer_model_info info = at_once.info();
      for (std::uint32_t layer = 0; layer < info.n_layers; ++layer) REQUIRE(sum_of(at_once.expert_counts(layer)) == 0);
      const std::vector<qinfer_token> tokens = some_tokens(kTokens, info.n_vocab);
      qi::KvCache cache(at_once), other_cache(one_by_one);
      qi::Session session(cache), other(other_cache);
      session.append(tokens);
      session.eval();
      for (const qinfer_token token : tokens) {
        other.append(token);
        other.eval();
      }
      std::uint32_t mixtures = 0;
      for (std::uint32_t layer = 0; layer < info.n_layers; ++layer) {
        INFO("layer " << layer);
        const Counts counts = at_once.expert_counts(layer);
        REQUIRE(counts == one_by_one.expert_counts(layer));
        if (counts.empty()) continue;
        ++mixtures;
        REQUIRE(counts.size() == info.n_experts);
        REQUIRE(sum_of(counts) == kTokens * info.n_active_experts);
        REQUIRE(*std::max_element(counts.begin(), counts.end()) <= kTokens);
      }
      REQUIRE(mixtures == info.n_expert_layers);
    }
}

TEST_CASE("Counts where every token goes through all experts, or all through one", "[api][experts]") {
  qi::Runtime runtime = runtime_for("reference");
  const auto counts_of = [&](const char* name, std::uint32_t layer) {
    const qi::Model model = qi::Model::load(runtime, fixture(name));
    qi::KvCache cache(model);
    qi::Session session(cache);
    session.append(some_tokens(13, model.info().n_vocab));
    session.eval();
    return model.expert_counts(layer);
  };
  REQUIRE(counts_of("qwen3moe-all-f32", 0) == Counts(8, 13));
  REQUIRE(counts_of("qwen3moe-all-f32", 1) == Counts(8, 13));
  for (const std::uint32_t layer : {0u, 1u}) {
    Counts counts = counts_of("qwen3moe-one-expert-f32", layer);
    std::sort(counts.begin(), counts.end());
    REQUIRE(counts == Counts{0, 0, 0, 0, 13});
  }
}

TEST_CASE("Counts are the model's: of all sessions, without what a cache gave, and read at any time",
          "[api][experts][threads]") {
  qi::Runtime runtime = runtime_for("reference");
  const qi::Model model = qi::Model::load(runtime, fixture("qwen3moe-f32"));
  auto options = qi::options<qinfer_kv_cache_options>();
  options.flags = QINFER_CACHE_PREFIX;
  options.budget_blocks = 16;
  qi::KvCache cache(model, options);
  const std::vector<qinfer_token> tokens = some_tokens(40, model.info().n_vocab);
  std::atomic<bool> done{false};
  bool grows = true;
  std::thread reader([&] {
    for (std::uint64_t before = 0; !done;) {
      const std::uint64_t now = sum_of(model.expert_counts(0));
      grows = grows && now >= before;
      before = now;
    }
  });
  {
    qi::Session first(cache);
    first.append(tokens);
    first.eval();
  }
  const std::uint64_t of_first = sum_of(model.expert_counts(1));
  auto session_options = qi::options<qinfer_session_options>();
  session_options.max_tokens = 64;
  qi::Session second(cache, session_options), third = qi::Session(cache, session_options);
  second.append(tokens);  // a block of 32 is there
  third.append(tokens.data(), 2);
  std::vector<qi::Session*> batch{&second, &third};
  qi::eval(batch);
  done = true;
  reader.join();
  REQUIRE(grows);
  REQUIRE(of_first == 40 * 3);
  REQUIRE(second.metrics().cached_tokens == 32);
  REQUIRE(sum_of(model.expert_counts(1)) == (40 + 8 + 2) * 3);
}

TEST_CASE("Counts into too little room, of layers that are not there, and without weights", "[api][experts]") {
  const Runtime runtime = make_runtime(1, "reference");
  const Model model = load_model(runtime, fixture("qwen3moe-dense-f32"));
  constexpr std::uint32_t kDense = 0, kMixture = 1;
  std::uint64_t counts[6] = {7, 7, 7, 7, 7, 7};
  std::size_t n = 99;
  const auto get = [&](std::uint32_t layer, std::uint64_t* out, std::size_t capacity, qinfer_error* err) {
    return qinfer_model_expert_counts(model.get(), layer, out, capacity, &n, err);
  };
  REQUIRE_OK(get(kDense, nullptr, 0, &err));
  REQUIRE(n == 0);
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 5, "5 elements are needed", get(kMixture, nullptr, 0, &err));
  REQUIRE(n == 5);
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 5, "room for 4", get(kMixture, counts, 4, &err));
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 5, "room for 0", get(kMixture, nullptr, 5, &err));
  REQUIRE(Counts(counts, counts + 6) == Counts(6, 7));
  REQUIRE_OK(get(kMixture, counts, 6, &err));
  REQUIRE(n == 5);
  REQUIRE(Counts(counts, counts + 6) == Counts{0, 0, 0, 0, 0, 7});
  for (const std::uint32_t layer : {6u, UINT32_MAX}) {
    n = 99;
    REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, fmt::format("layer is {}, the model has 6", layer),
                  get(layer, counts, 6, &err));
    REQUIRE(n == 0);
  }
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "model is NULL",
                qinfer_model_expert_counts(nullptr, 0, counts, 6, &n, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL",
                qinfer_model_expert_counts(model.get(), kMixture, counts, 6, nullptr, &err));
  auto options = sized<qinfer_load_options>();
  options.flags = QINFER_LOAD_NO_WEIGHTS;
  const Model bare = load_model(runtime, fixture("qwen3moe-dense-f32"), &options);
  REQUIRE_OK(qinfer_model_expert_counts(bare.get(), kMixture, counts, 6, &n, &err));
  REQUIRE(n == 5);
  REQUIRE(Counts(counts, counts + 5) == Counts(5, 0));
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(bare.get(), &info, &err));
  REQUIRE(info.n_experts == 5);
  REQUIRE(info.n_active_params == 0);  // as n_params
  REQUIRE(info.n_params == 0);
}
