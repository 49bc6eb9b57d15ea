// Stages: the layers of a model in parts, each a model of its own, with hidden states that go from one to the next.
// Held to the whole model: the same logits, bit for bit, on every kernel set, for every cut, in chunks and batches, out
// of directories, GGUF and packed files.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/skip.h"
#include "support/targets.h"
#ifdef QINFER_HAVE_AMX
#include "support/amx_runtime.h"
#endif

namespace {

using namespace qinfer;
using Tokens = std::vector<qi::Token>;

const std::string kFixtures = QINFER_TEST_FIXTURES;
const std::string kStories = std::string(QINFER_TEST_MODELS) + "/tiny-stories";

/// Layers [first, first + n) of a model, with some sessions.
class Stage {
 public:
  Stage(qi::Runtime& runtime, const std::string& path, std::uint32_t first, std::uint32_t n, std::size_t n_sessions,
        std::uint32_t batch = 0)
      : model_(load(runtime, path, first, n, batch)), cache_(model_, cache_options()) {
    for (std::size_t i = 0; i < n_sessions; ++i) sessions.push_back(std::make_unique<qi::Session>(cache_, session()));
  }
  qinfer_model_info info() const { return model_.info(); }
  qi::KvCache& cache() { return cache_; }
  static qinfer_session_options session() {
    auto options = qi::options<qinfer_session_options>();
    options.max_tokens = 128;
    options.max_logits = 80;
    return options;
  }

  std::vector<std::unique_ptr<qi::Session>> sessions;

 private:
  static qi::Model load(qi::Runtime& runtime, const std::string& path, std::uint32_t first, std::uint32_t n,
                        std::uint32_t batch) {
    auto options = qi::options<qinfer_load_options>();
    options.first_layer = first;
    options.n_layers = n;
    options.max_batch_tokens = batch;
    return qi::Model::load(runtime, path, options);
  }
  static qinfer_kv_cache_options cache_options() {
    auto options = qi::options<qinfer_kv_cache_options>();
    options.budget_blocks = 32;
    return options;
  }
  qi::Model model_;
  qi::KvCache cache_;
};

/// Evaluates what is pending in all stages one after another. Gives the logits of the last `rows` of each session.
std::vector<std::vector<float>> evaluate(std::vector<std::unique_ptr<Stage>>& stages, std::uint32_t rows) {
  const std::size_t n = stages.front()->sessions.size();
  const std::size_t width = stages.front()->info().n_embd;
  std::vector<std::vector<float>> hidden(n);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::vector<qi::Session*> sessions;
    std::vector<std::vector<float>> next(n);
    std::vector<const float*> in(n);
    std::vector<float*> out(n);
    for (std::size_t i = 0; i < n; ++i) {
      sessions.push_back(stages[s]->sessions[i].get());
      next[i].resize(sessions[i]->pending() * width, -1e30f);
      in[i] = hidden[i].data();
      out[i] = next[i].data();
    }
    auto options = qi::options<qinfer_eval_options>();
    if (s != 0) options.hidden_in = in.data();
    if (s + 1 != stages.size()) options.hidden_out = out.data();
    if (s + 1 == stages.size()) options.keep_logits = rows;
    qi::eval(sessions, options);
    hidden = std::move(next);
  }
  std::vector<std::vector<float>> logits(n);
  const std::uint32_t vocab = stages.back()->info().n_vocab;
  for (std::size_t i = 0; i < n; ++i)
    for (std::uint32_t back = rows; back-- > 0;) {
      const float* row = qinfer_session_logits(stages.back()->sessions[i]->native(), back);
      REQUIRE(row != nullptr);
      logits[i].insert(logits[i].end(), row, row + vocab);
    }
  return logits;
}

void append(std::vector<std::unique_ptr<Stage>>& stages, std::size_t session, const Tokens& tokens) {
  for (const auto& stage : stages) stage->sessions[session]->append(tokens);
}

using Cut = std::vector<std::uint32_t>;  // how many layers each stage has

std::vector<std::unique_ptr<Stage>> cut(qi::Runtime& runtime, const std::string& path, const Cut& layers,
                                        std::size_t n_sessions, std::uint32_t batch = 0) {
  std::vector<std::unique_ptr<Stage>> stages;
  std::uint32_t first = 0;
  for (const std::uint32_t n : layers) {
    stages.push_back(std::make_unique<Stage>(runtime, path, first, n, n_sessions, batch));
    first += n;
  }
  return stages;
}

Tokens random_tokens(std::uint32_t n, std::uint32_t vocab, std::uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens(n);
  for (qi::Token& token : tokens) token = static_cast<qi::Token>(random() % vocab);
  return tokens;
}

/// Prompts of two sessions, together, in pieces, then some single tokens: all logits on the way.
std::vector<float> run(qi::Runtime& runtime, const std::string& path, const Cut& layers, std::uint32_t batch = 0) {
  auto stages = cut(runtime, path, layers, 2, batch);
  const std::uint32_t vocab = stages.front()->info().n_vocab;
  std::vector<float> all;
  const auto take = [&](std::uint32_t rows) {
    for (const std::vector<float>& logits : evaluate(stages, rows)) all.insert(all.end(), logits.begin(), logits.end());
  };
  append(stages, 0, random_tokens(45, vocab, 1));
  append(stages, 1, random_tokens(13, vocab, 2));
  take(5);
  append(stages, 0, random_tokens(19, vocab, 3));
  append(stages, 1, random_tokens(1, vocab, 4));
  take(1);
  for (std::uint32_t i = 0; i < 3; ++i) {
    for (std::size_t s = 0; s < 2; ++s) append(stages, s, random_tokens(1, vocab, 10 + i));
    take(1);
  }
  return all;
}

/// What a call that must fail says; empty where it does not.
template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const qi::Error& error) {
    return error.what();
  }
  return "";
}

qi::Runtime runtime_of(const std::string& target, std::uint32_t threads = 2) {
  auto options = qi::options<qinfer_runtime_options>();
  options.n_threads = threads;
  options.cpu_target = target.c_str();
  return qi::Runtime(options);
}

/// How many values differ, and the largest difference.
void check_equal(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  std::size_t differ = 0;
  float most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &expected[i], sizeof(float)) == 0) continue;
    ++differ;
    most = std::max(most, std::abs(got[i] - expected[i]));
  }
  INFO(differ << " of " << got.size() << " logits differ, by at most " << most);
  CHECK(differ == 0);
}

std::vector<Cut> cuts_of(std::uint32_t layers) {
  std::vector<Cut> cuts = {{1, layers - 1}};
  if (layers > 2) cuts.push_back({layers - 1, 1});
  if (layers > 2) cuts.push_back({1, 1, layers - 2});
  return cuts;
}

void check_cuts(const std::string& path, qi::Runtime& runtime) {
  const std::uint32_t layers = qi::Model::load(runtime, path).info().n_layers;
  const std::vector<float> whole = run(runtime, path, {layers});
  for (const Cut& layers_of : cuts_of(layers)) {
    CAPTURE(layers_of.size(), layers_of.front());
    check_equal(run(runtime, path, layers_of), whole);
    check_equal(run(runtime, path, layers_of, 16), whole);  // in batches of 16 rows
  }
}

TEST_CASE("Stages give the logits of the whole model", "[engine][stages]") {
  for (const std::string& target : test::usable_targets())
    for (const char* name :
         {"models/qwen3-odd-bf16", "models/qwen3-untied-f32", "models/gemma3-f32", "models/gemma2-odd-bf16",
          "models/olmo2-f32", "models/granite-odd-bf16", "models/smollm3-list-bf16", "models/qwen3moe-f32",
          "models/mixtral-odd-bf16", "models/phi3-window-bf16", "models/ministral3-f32", "gguf/llama-plain-bf16.gguf",
          "quant/mixed/model.gguf"}) {
      CAPTURE(target, name);
      qi::Runtime runtime = runtime_of(target);
      check_cuts(kFixtures + "/" + name, runtime);
    }
}

TEST_CASE("Stages of a packed model give its logits", "[engine][stages]") {
  for (const std::string& target : test::usable_targets()) {
    if (target == "reference") continue;
    const test::ModelDir folder;
    qi::Runtime runtime = runtime_of(target);
    const std::string packed = folder.file("m.qinfer");
    qi::pack(runtime, kFixtures + "/models/qwen3-odd-bf16", packed);
    CAPTURE(target);
    check_cuts(packed, runtime);
  }
}

#ifdef QINFER_HAVE_AMX
// Its residual stream is in panels of 16 rows.
TEST_CASE("Stages on emulated tiles give the logits of the whole model", "[engine][stages]") {
  SKIP_UNLESS_CPU_HAS(test::can_emulate_amx(), "AVX-512");
  test::EmulatedRuntime runtime;
  check_cuts(kFixtures + "/models/qwen3-odd-bf16", runtime);
}
#endif

TEST_CASE("A stage says what it is, and takes the memory of its layers", "[engine][stages]") {
  qi::Runtime runtime = runtime_of("reference", 1);
  const Stage whole(runtime, kStories, 0, 0, 1);
  const std::uint32_t layers = whole.info().n_layers;
  CHECK(whole.info().n_model_layers == layers);
  auto stages = cut(runtime, kStories, {2, layers - 2}, 1);
  const qinfer_model_info first = stages[0]->info(), last = stages[1]->info();
  CHECK((first.flags & (QINFER_MODEL_TAKES_HIDDEN | QINFER_MODEL_GIVES_HIDDEN)) == QINFER_MODEL_GIVES_HIDDEN);
  CHECK((last.flags & (QINFER_MODEL_TAKES_HIDDEN | QINFER_MODEL_GIVES_HIDDEN)) == QINFER_MODEL_TAKES_HIDDEN);
  CHECK(first.first_layer == 0);
  CHECK(last.first_layer == 2);
  CHECK(first.n_layers == 2);
  CHECK(last.n_model_layers == layers);
  CHECK(first.n_params < whole.info().n_params);
  auto load = qi::options<qinfer_load_options>();
  const auto planned = [&](std::uint32_t from, std::uint32_t n) {
    load.first_layer = from, load.n_layers = n;
    const qinfer_memory memory = qi::plan(kStories, nullptr, &load);
    return memory.weights_mapped + memory.weights_private;
  };
  CHECK(planned(0, 2) < planned(0, 0));
  CHECK(planned(1, 1) < planned(0, 1));
  CHECK(planned(1, 1) < planned(1, layers - 1));
}

TEST_CASE("What does not go with stages is refused", "[engine][stages]") {
  qi::Runtime runtime = runtime_of("reference", 1);
  const auto refused = [](const auto& call) { return message_of(call); };
  const auto loads = [&](std::uint32_t first, std::uint32_t n, const std::string& path = kStories) {
    return refused([&] { Stage(runtime, path, first, n, 0); });
  };
  CHECK(loads(900, 0).find("first_layer is 900 and n_layers 0, but the model has") != std::string::npos);
  CHECK(loads(1, 4000000000u).find("n_layers 4000000000") != std::string::npos);
  CHECK(loads(0, 1, kFixtures + "/models/bert-f32").find("is an encoder") != std::string::npos);

  Stage first(runtime, kStories, 0, 2, 1), second(runtime, kStories, 2, 0, 1);
  auto cache = qi::options<qinfer_kv_cache_options>();
  cache.flags = QINFER_CACHE_PREFIX;
  auto load = qi::options<qinfer_load_options>();
  load.n_layers = 1;
  const qi::Model stage = qi::Model::load(runtime, kStories, load);
  CHECK(refused([&] { qi::KvCache(stage, cache); }).find("QINFER_CACHE_PREFIX") != std::string::npos);
  auto session = Stage::session();
  session.max_draft = 4;
  CHECK(refused([&] { qi::Session(second.cache(), session); }).find("max_draft is 4") != std::string::npos);
  session.max_draft = 0, session.flags = QINFER_SESSION_EMBEDDINGS;
  CHECK(refused([&] { qi::Session(first.cache(), session); }).find("gives no embeddings") != std::string::npos);
  CHECK(refused([&] { qi::Scheduler(second.cache()); }).find("is a stage") != std::string::npos);
  const test::ModelDir folder;
  CHECK(refused([&] { qi::pack(runtime, kStories, folder.file("m"), load); }).find("packing") != std::string::npos);

  first.sessions[0]->append(Tokens{1, 2});
  second.sessions[0]->append(Tokens{1, 2});
  CHECK(refused([&] { qi::eval({first.sessions[0].get()}); }).find("hidden_out[0] is NULL") != std::string::npos);
  CHECK(refused([&] { qi::eval({second.sessions[0].get()}); }).find("hidden_in[0] is NULL") != std::string::npos);
  CHECK(refused([&] { second.sessions[0]->generate(qi::GenerateOptions()); }).find("hidden_in[0] is NULL") !=
        std::string::npos);
  std::vector<float> rows(2 * first.info().n_embd);
  const float* in[] = {rows.data()};
  float* out[] = {rows.data()};
  auto options = qi::options<qinfer_eval_options>();
  options.hidden_in = in, options.hidden_out = out;
  CHECK(refused([&] { qi::eval({first.sessions[0].get()}, options); }).find("hidden_in[0] is not NULL") !=
        std::string::npos);
  CHECK(first.sessions[0]->pending() == 2);
  options.hidden_in = nullptr;
  qi::eval({first.sessions[0].get()}, options);
  CHECK(refused([&] { first.sessions[0]->sample(); }).find("a stage that gives hidden states") != std::string::npos);
}

TEST_CASE("The last stage gives a text's vector", "[engine][stages]") {
  namespace fs = std::filesystem;
  const test::ModelDir folder;
  for (const char* from : {"/models/qwen3-untied-f32", "/embedding_modules/qwen-dense"})
    fs::copy(kFixtures + from, folder.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  qi::Runtime runtime = runtime_of("reference", 1);
  auto options = Stage::session();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  const Tokens tokens = random_tokens(20, 50, 5);
  std::vector<std::vector<float>> vectors;
  for (const Cut& layers : {Cut{0}, Cut{1, 0}}) {
    auto stages = cut(runtime, folder.path(), layers, 1);
    stages.back()->sessions[0] = std::make_unique<qi::Session>(stages.back()->cache(), options);
    append(stages, 0, tokens);
    evaluate(stages, 0);
    vectors.emplace_back(stages.back()->info().embedding_dims);
    std::size_t n = 0;
    REQUIRE(qinfer_session_embedding(stages.back()->sessions[0]->native(), QINFER_POOL_DEFAULT, vectors.back().data(),
                                     vectors.back().size(), &n, nullptr) == QINFER_OK);
  }
  check_equal(vectors[1], vectors[0]);
}

TEST_CASE("A stage's session goes on out of a file, of the same stage alone", "[engine][stages]") {
  qi::Runtime runtime = runtime_of("reference", 1);
  const test::ModelDir folder;
  auto stages = cut(runtime, kStories, {2, 0}, 1);
  append(stages, 0, random_tokens(20, 200, 1));
  evaluate(stages, 1);
  for (std::size_t s = 0; s < 2; ++s) stages[s]->sessions[0]->save(folder.file("s" + std::to_string(s)));
  append(stages, 0, random_tokens(5, 200, 2));
  const auto expected = evaluate(stages, 1);
  for (std::size_t s = 0; s < 2; ++s) {
    stages[s]->sessions[0] =
        std::make_unique<qi::Session>(qi::Session::load(stages[s]->cache(), folder.file("s" + std::to_string(s))));
    const auto load = [&] { qi::Session::load(stages[s]->cache(), folder.file("s" + std::to_string(1 - s))); };
    CHECK(message_of(load).find("saved with") != std::string::npos);
  }
  append(stages, 0, random_tokens(5, 200, 2));
  check_equal(evaluate(stages, 1)[0], expected[0]);
}

}  // namespace
