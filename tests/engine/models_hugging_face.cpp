// Logits of small random checkpoints against Hugging Face transformers in float32 and float64, for every architecture,
// fed at once, in chunks and token by token. The fixtures and the script that made them are in fixtures/.
//
// Tolerance: 1e-4 of the largest logit is what the project promises for f32. The transformers runs in float32 and
// float64 differ by under 2e-6 of it on these models (printed by the script), the smallest effect of a wrong
// interpretation (a bias, a window off by one, a rope variant) is 0.02 of it, so the bound can only hold for the
// right computation.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#ifdef QINFER_HAVE_AMX
#include "support/amx_runtime.h"
#endif
#include "support/catch.h"
#include "support/model_fixtures.h"
#include "support/skip.h"
#include "support/targets.h"

namespace {

namespace fs = std::filesystem;

using namespace qinfer::test::models;

/// `wanted` within `allowed` of the length of an embedding, which is 1.
void check_embeddings(const qi::Model& model, const Expected& expected, const std::vector<float>& wanted,
                      double allowed) {
  constexpr std::size_t kLengths[] = {70, 33};
  const std::size_t width = model.info().n_embd;
  const bool encoder = (model.info().flags & QINFER_MODEL_ENCODER) != 0;
  REQUIRE(wanted.size() == std::size(kLengths) * 3 * width);
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  const float* want = wanted.data();
  for (const std::size_t n : kLengths) {
    for (const std::size_t chunk : {std::size_t{70}, std::size_t{7}}) {
      qi::Session session(cache, options);
      for (std::size_t i = 0; i < n; i += chunk) {
        session.append(expected.ids.data() + i, std::min(chunk, n - i));
        session.eval();
      }
      const std::int32_t poolings[] = {QINFER_POOL_LAST, QINFER_POOL_MEAN, QINFER_POOL_FIRST};
      for (std::size_t p = 0; p < std::size(poolings); ++p) {
        const std::vector<float> got = session.embedding(poolings[p]);
        REQUIRE(got.size() == width);
        double difference = 0;
        for (std::size_t i = 0; i < width; ++i)
          difference = std::max(difference, std::fabs(static_cast<double>(got[i]) - want[p * width + i]));
        INFO(n << " tokens in chunks of " << chunk << ", pooling " << poolings[p] << ": off by " << difference);
        CHECK(difference < allowed);
      }
      CHECK(session.embedding() == session.embedding(encoder ? QINFER_POOL_MEAN : QINFER_POOL_LAST));
    }
    want += 3 * width;
  }
}

void check_folder(const std::string& folder, const std::string& target) {
  const Expected expected = read_expected(folder);
  INFO(target);
  const qi::Model model = load_exact(folder, target.c_str());
  if (!expected.embeddings.empty()) check_embeddings(model, expected, expected.embeddings, 1e-4);
  if (expected.rows.empty()) return;
  REQUIRE(model.info().n_vocab == expected.n_vocab);
  const std::vector<float> whole = evaluate(model, expected.ids, 0);
  CHECK(deviation(whole, expected, expected.f64) < 1e-4);
  CHECK(deviation(whole, expected, expected.f32) < 1e-4);
  for (const std::size_t chunk : {1u, 7u, 32u}) {
    INFO("chunks of " << chunk);
    const std::vector<float> chunked = evaluate(model, expected.ids, chunk);
    CHECK(deviation(chunked, expected, expected.f64) < 1e-4);
    CHECK(std::memcmp(chunked.data(), whole.data(), whole.size() * sizeof(float)) == 0);
  }
}

std::vector<std::string> fixture_folders(const std::string& kind = "models") {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(std::string(QINFER_TEST_FIXTURES "/") + kind))
    if (entry.is_directory()) folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

TEST_CASE("logits equal Hugging Face transformers for every architecture", "[models]") {
  const auto folders = fixture_folders();
  REQUIRE(folders.size() >= 50);
  for (const std::string& folder : folders) {
    INFO(folder);
    for (const std::string& target : qinfer::test::usable_targets(true)) check_folder(folder, target);
  }
}

// What check_old_cpu.sh runs on emulated CPUs: models that together have every operation, and weights of each type.
TEST_CASE("a few models equal Hugging Face transformers", "[.]") {
  for (const char* name : {"qwen3-untied-f32", "qwen2-odd-f16", "gemma2-odd-bf16", "gemma3-encoder-f32",
                           "phi3-partial-f32", "qwen3moe-unnormed-bf16", "hunyuan-f32", "ministral3-f32"}) {
    INFO(name);
    for (const std::string& target : qinfer::test::usable_targets(true))
      check_folder(std::string(QINFER_TEST_FIXTURES "/models/") + name, target);
  }
}

TEST_CASE("tokens go through the experts that transformers chooses, on every kernel set", "[models]") {
  // The fixtures' ids are such that no choice is near a tie.
  std::size_t checked = 0;
  for (const std::string& folder : fixture_folders()) {
    const Expected expected = read_expected(folder);
    if (expected.experts.empty()) continue;
    for (const std::string& target : qinfer::test::usable_targets()) {
      INFO(folder << " on " << target);
      auto options = qi::options<qinfer_runtime_options>();
      options.cpu_target = target.c_str();
      qi::Runtime runtime(options);
      const qi::Model model = qi::Model::load(runtime, folder);
      evaluate(model, expected.ids, 0);
      const qinfer_model_info info = model.info();
      const std::size_t of_layer = expected.ids.size() * info.n_active_experts;
      REQUIRE(expected.experts.size() == of_layer * info.n_expert_layers);
      auto chosen = expected.experts.begin();
      for (std::uint32_t layer = 0; layer < info.n_layers; ++layer) {
        const std::vector<std::uint64_t> counts = model.expert_counts(layer);
        if (counts.empty()) continue;
        std::vector<std::uint64_t> want(info.n_experts);
        for (std::size_t i = 0; i < of_layer; ++i) ++want[static_cast<std::size_t>(*chosen++)];
        INFO("layer " << layer);
        CHECK(counts == want);
      }
      ++checked;
    }
  }
  CHECK(checked >= 14);
}

TEST_CASE("config.json in the style of transformers 4 means the same", "[models]") {
  int checked = 0;
  for (const std::string& folder : fixture_folders()) {
    if (!fs::exists(folder + "/config_v4.json")) continue;
    ++checked;
    INFO(folder);
    char name[] = "/tmp/qinfer-config-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string file = entry.path().filename().string();
      if (file != "config.json" && file != "config_v4.json")
        fs::create_symlink(fs::absolute(entry.path()), std::string(name) + "/" + file);
    }
    fs::copy_file(folder + "/config_v4.json", std::string(name) + "/config.json");
    check_folder(name, "reference");
    fs::remove_all(name);
  }
  CHECK(checked >= 22);
}

TEST_CASE("windows of 512 positions hold no more over 14,000 tokens, whose logits are transformers'", "[models]") {
  // The bound of the sliding-window policy: ceil((W - 1 + chunk) / block) + 1 blocks of each session.
  constexpr std::uint32_t kWindow = 512, kBlock = 32, kBatch = 512, kPrompt = 4000;
  const auto most = [](std::uint32_t chunk) { return (kWindow - 1 + chunk + kBlock - 1) / kBlock + 1; };
  const auto folders = fixture_folders("long_models");
  REQUIRE(folders.size() == 2);
  for (const std::string& folder : folders) {
    INFO(folder);
    const Expected expected = read_expected(folder);
    REQUIRE(expected.ids.size() == 14000);
    const qi::Model model = load_exact(folder);
    const bool mixed = std::string(model.info().architecture) == "Gemma2ForCausalLM";
    auto cache_options = qi::options<qinfer_kv_cache_options>();
    // A model with windows everywhere needs no more for any length; the other keeps all positions of one layer of two.
    cache_options.budget_blocks = mixed ? 14000 / kBlock + 1 : most(kBatch);
    qi::KvCache cache(model, cache_options);
    auto options = qi::options<qinfer_session_options>();
    options.max_logits = kPrompt;
    qi::Session session(cache, options);
    std::vector<float> logits(expected.ids.size() * expected.n_vocab);
    session.append(expected.ids.data(), kPrompt);
    auto eval_options = qi::options<qinfer_eval_options>();
    eval_options.keep_logits = kPrompt;
    session.eval(eval_options);
    for (std::size_t i = 0; i < kPrompt; ++i)
      std::copy_n(session.logits(kPrompt - 1 - i), expected.n_vocab,
                  logits.begin() + static_cast<std::ptrdiff_t>(i * expected.n_vocab));
    std::uint64_t most_used = 0;
    for (std::size_t i = kPrompt; i < expected.ids.size(); ++i) {
      session.append(expected.ids[i]);
      session.eval();
      std::copy_n(session.logits(), expected.n_vocab,
                  logits.begin() + static_cast<std::ptrdiff_t>(i * expected.n_vocab));
      const std::uint64_t all = mixed ? i / kBlock + 1 : 0;  // of the layer that keeps everything
      most_used = std::max(most_used, cache.stats().blocks_used - all);
    }
    CHECK(most_used <= most(1));
    CHECK(most_used >= kWindow / kBlock);
    CHECK(deviation(logits, expected, expected.f64) < 1e-4);
  }
}

TEST_CASE("weights loaded in another format or without mmap", "[models]") {
  const std::string folder = QINFER_TEST_FIXTURES "/models/qwen3-odd-bf16";
  const Expected expected = read_expected(folder);
  const std::vector<float> mapped = evaluate(load_exact(folder), expected.ids, 0);
  auto options = qi::options<qinfer_load_options>();
  SECTION("read instead of mapped: the same bits") { options.flags = QINFER_LOAD_NO_MMAP | QINFER_LOAD_VERIFY; }
  SECTION("bf16 widened to f32: the same values, hence the same bits") { options.weight_format = "f32"; }
  SECTION("both") {
    options.flags = QINFER_LOAD_NO_MMAP;
    options.weight_format = "f32";
  }
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.flags = QINFER_RUNTIME_EXACT;
  qi::Runtime runtime(runtime_options);
  const qi::Model model = qi::Model::load(runtime, folder, options);
  CHECK(std::string(model.info().weight_format) == (options.weight_format != nullptr ? "f32" : "bf16"));
  const std::vector<float> other = evaluate(model, expected.ids, 0);
  CHECK(std::memcmp(other.data(), mapped.data(), mapped.size() * sizeof(float)) == 0);
}

TEST_CASE("f16 and bf16 KV caches stay within their rounding", "[models]") {
  // Each key and value is rounded once: relative 2^-11 (f16) or 2^-8 (bf16), half an ulp. A logit is a sum of many such
  // terms through two layers; four times the rounding of one term is the bound used, far under the 0.04 of a mistake.
  const std::string folder = QINFER_TEST_FIXTURES "/models/qwen3-odd-bf16";
  const Expected expected = read_expected(folder);
  const qi::Model model = load_exact(folder);
  for (const auto& [type, bound] : {std::pair{QINFER_KV_F16, 4 * 0x1p-11}, std::pair{QINFER_KV_BF16, 4 * 0x1p-8}}) {
    auto cache_options = qi::options<qinfer_kv_cache_options>();
    cache_options.kv_type = type;
    qi::KvCache cache(model, cache_options);
    auto options = qi::options<qinfer_session_options>();
    options.max_logits = static_cast<std::uint32_t>(expected.ids.size());
    qi::Session session(cache, options);
    session.append(expected.ids);
    auto eval_options = qi::options<qinfer_eval_options>();
    eval_options.keep_logits = options.max_logits;
    session.eval(eval_options);
    std::vector<float> logits;
    for (std::size_t back = expected.ids.size(); back-- > 0;)
      logits.insert(logits.end(), session.logits(back), session.logits(back) + expected.n_vocab);
    const double error = deviation(logits, expected, expected.f64);
    INFO("type " << type);
    CHECK(error < bound);
    CHECK(error > 1e-6);  // otherwise the type was not used
  }
}

namespace {

/// What an AVX-512 set that does not compute in f32 may differ by from float64. A set that rounds to bf16 is compared
/// with float64 that rounds where it does, as the sets with tiles are with another one: see check_bf16().
double allowed_deviation(const std::string& target, const Expected& expected) {
  if (qinfer::test::rounds_to_bf16(target)) return 2 * expected.bf16_noise;
  // Runs of f16 are rounded at each product; the norms of OLMo's kind, after the layers, leave nothing of a larger
  // residual to be added to.
  return qinfer::test::sums_f16_in_f16(target) ? 6 * (4 * 0x1p-11 + 0x1p-9 + 1.4e-3) : 4 * (2 * 0x1p-11);
}

void check_avx512(const std::string& folder, const std::string& target, const Expected& expected,
                  const qi::Model& model) {
  CHECK(std::string(model.info().weight_format) == (qinfer::test::rounds_to_bf16(target) ? "bf16" : "f16"));
  const std::vector<float> whole = evaluate(model, expected.ids, 0);
  for (const std::size_t chunk : {1u, 7u, 32u})
    CHECK(std::memcmp(evaluate(model, expected.ids, chunk).data(), whole.data(), whole.size() * sizeof(float)) == 0);
  const bool rounds = qinfer::test::rounds_to_bf16(target);
  const double error = deviation(whole, expected, rounds ? expected.bf16 : expected.f64);
  INFO(folder << " on " << target << ": " << error);
  CHECK(error < allowed_deviation(target, expected));
  CHECK(deviation(whole, expected, expected.f64) > (rounds ? 1e-3 : 1e-6));  // otherwise another mode ran
}

/// amx, or avx512_bf16, beside float64 with the same roundings. Sums in f32 can turn single roundings over, and
/// what follows from those; the fixture says how much that is (make_model_fixtures.py), and twice as much is allowed.
/// Returns whether none was turned over: then the difference is that of the last sums. `each_token`: chunks of one
/// token, too.
bool check_bf16(const std::string& folder, const Expected& expected, const qi::Model& model, bool each_token = true) {
  CHECK(std::string(model.info().weight_format) == "bf16");
  const bool tiles = qinfer::test::uses_tiles(model.info().kernel_set);
  INFO(folder);
  if (!expected.embeddings.empty()) {
    REQUIRE(expected.embeddings_noise > 0);
    check_embeddings(model, expected, tiles ? expected.embeddings_tiles : expected.embeddings_bf16,
                     2 * expected.embeddings_noise);
  }
  if (expected.rows.empty()) return false;
  REQUIRE(expected.bf16_noise > 0);
  const std::vector<float> whole = evaluate(model, expected.ids, 0);
  const double error = deviation(whole, expected, tiles ? expected.tiles : expected.bf16);
  const double allowed = 2 * expected.bf16_noise;
  INFO(folder << " on " << model.info().kernel_set << ": " << error);
  CHECK(error < allowed);
  CHECK(deviation(whole, expected, expected.f64) > 1e-3);  // otherwise nothing was rounded to bf16
  for (const std::size_t chunk : {1u, 7u, 32u}) {
    if (chunk == 1 && !each_token) continue;
    const std::vector<float> chunked = evaluate(model, expected.ids, chunk);
    CHECK(std::memcmp(chunked.data(), whole.data(), whole.size() * sizeof(float)) == 0);
  }
  return error < 1e-6;
}

}  // namespace

TEST_CASE("16-bit weights, activations and sums stay within their rounding", "[models]") {
  SKIP_UNLESS_CPU_HAS(qinfer::test::usable_targets().size() > 1, "a kernel set beside the reference");
  // As above, four times the rounding of one term: 2^-11 for weights and 2^-11 for the f16 cache. f16 sums also round
  // every activation and every attention weight (2^-11 each), each run of 64 products by about sqrt(64) * 2^-12 = 2^-9
  // (tests/kernels/linear.cpp) and the 32 products of weights and values of a tile by sqrt(32) * 2^-12, under 2^-9.4.
  for (const std::string& folder : fixture_folders()) {
    const Expected expected = read_expected(folder);
    for (const std::string& target : qinfer::test::usable_targets()) {
      if (qinfer::test::is_portable(target) || (expected.rows.empty() && !qinfer::test::rounds_to_bf16(target)))
        continue;
      auto options = qi::options<qinfer_runtime_options>();
      options.cpu_target = target.c_str();
      options.n_threads = 1;
      qi::Runtime runtime(options);
      const qi::Model model = qi::Model::load(runtime, folder);
      if (qinfer::test::rounds_to_bf16(target)) {
        check_bf16(folder, expected, model);
      } else {
        check_avx512(folder, target, expected, model);
      }
    }
  }
}

TEST_CASE("sets with tiles and sums in f32 give the same bits, whatever the instruction set", "[models]") {
  std::vector<std::string> targets;
  for (const std::string& target : qinfer::test::usable_targets(true))
    if (!qinfer::test::is_portable(target)) targets.push_back(target);
  SKIP_UNLESS_CPU_HAS(targets.size() > 1, "two kernel sets with sums in f32");
  for (const std::string& folder : fixture_folders()) {
    const Expected expected = read_expected(folder);
    if (expected.rows.empty()) continue;
    for (const std::uint64_t flags : {std::uint64_t{0}, std::uint64_t{QINFER_RUNTIME_EXACT}}) {
      std::vector<float> first;
      for (const std::string& target : targets) {
        auto options = qi::options<qinfer_runtime_options>();
        options.cpu_target = target.c_str();
        options.n_threads = 1;
        options.flags = flags;
        qi::Runtime runtime(options);
        const std::vector<float> logits = evaluate(qi::Model::load(runtime, folder), expected.ids, 0);
        if (first.empty()) first = logits;
        const auto differs =
            std::mismatch(first.begin(), first.end(), logits.begin(), logits.end(), [](float a, float b) {
              return std::memcmp(&a, &b, sizeof a) == 0;
            }).first;
        INFO(folder << ", flags " << flags << ", " << target << " beside " << targets[0] << ": logit "
                    << differs - first.begin());
        CHECK(differs == first.end());
      }
    }
  }
}

#ifdef QINFER_HAVE_AMX
TEST_CASE("amx on emulated tiles is transformers with its roundings, in chunks of any size", "[amx]") {
  SKIP_UNLESS_CPU_HAS(qinfer::test::can_emulate_amx(), "AVX-512");
  const bool rounds_natively = qinfer::test::usable_features().find("avx512_bf16") != std::string::npos;
  qinfer::test::EmulatedRuntime runtime(1, "amx");
  int equal = 0, n = 0;
  for (const std::string& folder : fixture_folders()) {
    // A token by itself takes as many tiles as 16, and the emulator its time for each: of every fourth model. Where it
    // executes roundings to bf16, too, every fourth model is all (the hidden test of bits takes them all).
    const bool fourth = n++ % 4 == 0;
    if (!fourth && !rounds_natively) continue;
    equal += check_bf16(folder, read_expected(folder), qi::Model::load(runtime, folder), fourth) ? 1 : 0;
  }
  CHECK(equal > 1);  // a rounding too many or too few would show in all of them
}
#endif

TEST_CASE("generation_config.json overrides the end tokens", "[models]") {
  const qi::Model model = qi::Model::load(QINFER_TEST_FIXTURES "/models/qwen3-odd-bf16");
  CHECK((qinfer_token_flags(model.native(), 3) & QINFER_TOKEN_END) != 0);
  CHECK((qinfer_token_flags(model.native(), 7) & QINFER_TOKEN_END) != 0);
  CHECK((qinfer_token_flags(model.native(), 4) & QINFER_TOKEN_END) == 0);
  CHECK(model.info().bos_token == 1);
}
