// GGUF files that the library writes: against those of llama.cpp's converter, tensor by tensor and key by key, against
// packed models, bit for bit, and read back.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "formats/gguf.h"
#include "support/c_api.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_writer.h"
#include "support/skip.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

namespace fs = std::filesystem;

std::string fixture(const std::string& name) { return QINFER_TEST_FIXTURES "/models/" + name; }

qinfer_status try_export(const std::string& model, const std::string& out, const char* format, qinfer_error& err) {
  auto options = sized<qinfer_load_options>();
  options.weight_format = format;
  return qinfer_model_export_gguf(nullptr, model.c_str(), &options, out.c_str(), &err);
}

formats::Gguf open_gguf(const std::string& path) {
  auto opened = formats::Gguf::open(path, nullptr, {});
  REQUIRE(opened.ok());
  return std::move(opened.value());
}

std::vector<float> values_of(const formats::Gguf& gguf, const formats::GgufTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  REQUIRE(gguf.read(tensor, 0, bytes).ok());
  std::uint64_t n = 1;
  for (const std::uint64_t dim : tensor.dims) n *= dim;
  std::vector<float> values(n);
  encoding_traits(tensor.encoding).to_f32(bytes.data(), static_cast<std::int64_t>(n), values.data());
  return values;
}

/// Logits of some tokens, or an encoder's embedding of them, on the portable kernels with f32 sums.
std::vector<float> logits_on(const Runtime& runtime, const std::string& path) {
  const Model model = load_model(runtime, path);
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
  const Cache cache = make_cache(model);
  const Session session = make_session(cache);
  append(session, some_tokens(70, info.n_vocab));
  eval(session);
  if ((info.flags & QINFER_MODEL_ENCODER) == 0) return last_logits(session, info.n_vocab);
  std::vector<float> values(info.n_embd);
  std::size_t n = 0;
  REQUIRE_OK(qinfer_session_embedding(session.get(), QINFER_POOL_MEAN, values.data(), values.size(), &n, &err));
  return values;
}

/// What a file says of sampling, by llama.cpp's keys.
std::map<std::string, std::string> sampling_of(const std::string& path) {
  const Model model = load_model(make_runtime(1, "reference"), path);
  std::map<std::string, std::string> found;
  for (std::size_t i = 0; i < qinfer_model_meta_count(model.get()); ++i) {
    const std::string key = qinfer_model_meta_key(model.get(), i), begin = "gguf.general.sampling.";
    if (key.starts_with(begin)) found[key.substr(begin.size())] = qinfer_model_meta_value(model.get(), key.c_str());
  }
  return found;
}

/// What GGUF cannot say of a fixture; empty: it is exported.
std::string lost(const std::string& name) {
  if (name.starts_with("mpnet-")) return "has no GGUF architecture";
  static const std::map<std::string, std::string> all = {{"gemma2-f32", "attention_scale"},
                                                         {"gemma2-odd-bf16", "attention_scale"},
                                                         {"gemma2-defaults-f32", "attention_scale"},
                                                         {"gemma3-f32", "attention_scale"},
                                                         {"gemma3-capped-bf16", "attention_scale"},
                                                         {"gemma3-shared-f32", "attention_scale"},
                                                         {"gemma3-encoder-f32", "attention_scale"},
                                                         {"llama-shared-f32", "kv_source"},
                                                         {"gemma3vl-released-bf16", "attention_scale"},
                                                         {"gemma3vl-new-f32", "window"},
                                                         {"qwen2moe-normed-bf16", "sliding_window"},
                                                         {"qwen2-window-f32", "sliding_window"},
                                                         {"smollm3-list-bf16", "sliding_window"},
                                                         {"smollm3-types-f32", "sliding_window"},
                                                         {"smollm3-interval-f32", "no_rope"},
                                                         {"qwen3moe-unnormed-bf16", "normalise"},
                                                         {"qwen3moe-all-f32", "normalise"},
                                                         {"qwen3moe-one-expert-f32", "normalise"},
                                                         {"qwen3moe-top1-f32", "normalise"}};
  const auto found = all.find(name);
  return found == all.end() ? std::string() : found->second;
}

}  // namespace

TEST_CASE("Exported models have the tensors and keys that llama.cpp's converter writes", "[gguf][export]") {
  std::size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(QINFER_TEST_FIXTURES "/gguf")) {
    const std::string name = entry.path().stem().string();
    if (!fs::exists(fixture(name)) || !lost(name).empty()) continue;
    INFO(name);
    const ModelDir place;
    const std::string out = place.file("model.gguf");
    qinfer_error err;
    REQUIRE(try_export(fixture(name), out, nullptr, err) == QINFER_OK);
    const formats::Gguf theirs = open_gguf(entry.path().string()), ours = open_gguf(out);
    CHECK(ours.tensors().size() == theirs.tensors().size());
    for (const formats::GgufTensor& tensor : theirs.tensors()) {
      INFO(tensor.name);
      const formats::GgufTensor* found = ours.find(tensor.name);
      REQUIRE(found != nullptr);
      CHECK(found->shape() == tensor.shape());
      const std::vector<float> want = values_of(theirs, tensor), values = values_of(ours, *found);
      if (tensor.name == "rope_freqs.weight") {  // computed in f32 there, and rounded once here
        for (std::size_t i = 0; i < want.size(); ++i) CHECK(values[i] == Approx(want[i]).epsilon(1e-6));
      } else {
        CHECK(std::memcmp(values.data(), want.data(), 4 * want.size()) == 0);
      }
    }
    // The text of a model that sees images is exported as a model of text.
    const std::string architecture = std::string(*theirs.metadata().string("general.architecture").value());
    if (architecture != *ours.metadata().string("general.architecture").value()) continue;
    for (std::size_t i = 0; i < theirs.metadata().size(); ++i) {
      const formats::GgufValue& value = theirs.metadata()[i];
      if (!value.key.starts_with(architecture) || value.is_array) continue;
      // Of layers without experts, where all have some.
      if (value.key.ends_with(".feed_forward_length") && theirs.metadata().has(architecture + ".expert_count"))
        continue;
      // Of experts and recurrent layers, where there are none.
      if (architecture == "granite" &&
          (value.key.find(".ssm.") != value.key.npos || value.key.find(".expert_") != value.key.npos))
        continue;
      // The converter assumes a longer context than the checkpoint states, and of Nomic's takes the trained one.
      const bool other_context = architecture == "hunyuan-dense" || architecture == "nomic-bert";
      if (other_context && value.key.find("context_length") != value.key.npos) continue;
      INFO(value.key);
      const formats::GgufValue* found = ours.metadata().find(value.key);
      REQUIRE(found != nullptr);
      if (value.is_text()) {
        CHECK(found->text() == value.text());
      } else if (value.type == formats::GgufType::boolean) {
        CHECK(found->bytes == value.bytes);
      } else {
        CHECK(*ours.metadata().number(value.key).value() == *theirs.metadata().number(value.key).value());
      }
    }
    ++compared;
  }
  CHECK(compared >= 16);
}

TEST_CASE("Exported models give the bits of packed ones", "[gguf][export]") {
  const Runtime runtime = make_runtime(2, "reference");
  std::size_t exported = 0;
  for (const auto& entry : fs::directory_iterator(QINFER_TEST_FIXTURES "/models")) {
    const std::string name = entry.path().filename().string();
    for (const char* format : {"", "q8_0", "q4_k_m"}) {
      INFO(name << " " << format);
      const ModelDir place;
      const std::string gguf = place.file("model.gguf"), packed = place.file("packed");
      qinfer_error err;
      const qinfer_status status = try_export(fixture(name), gguf, *format == 0 ? nullptr : format, err);
      if (!lost(name).empty()) {
        CHECK(status == QINFER_E_UNSUPPORTED);
        CHECK_THAT(err.message, contains(lost(name)));
        continue;
      }
      INFO(err.message);
      CHECK(status == QINFER_OK);
      if (status != QINFER_OK) continue;
      auto options = sized<qinfer_load_options>();
      options.weight_format = *format == 0 ? nullptr : format;
      REQUIRE_OK(qinfer_model_pack(runtime.get(), fixture(name).c_str(), &options, packed.c_str(), &err));
      const std::vector<float> want = logits_on(runtime, packed), found = logits_on(runtime, gguf);
      REQUIRE(found.size() == want.size());
      // Divisors, and yarn's factor of cosines, are quotients in f32, which turn some numbers by one rounding.
      if (name.starts_with("llama-llama3") || name == "qwen3-yarn-f32") {
        for (std::size_t i = 0; i < want.size(); ++i) CHECK(found[i] == Approx(want[i]).margin(1e-4));
      } else {
        CHECK(found == want);
      }
      ++exported;
    }
  }
  CHECK(exported >= 60);
}

TEST_CASE("GGUF files are exported as GGUF files", "[gguf][export]") {
  const Runtime runtime = make_runtime(2, "reference");
  for (const char* name :
       {"gguf/llama-llama3-f32", "gguf/gemma3-released-bf16", "gguf/phi3-partial-f32", "gguf/qwen2moe-f32",
        "gguf/smollm3-released-bf16", "quant/mixed/model", "quant/moe/model", "gguf/bert-odd-bf16",
        "gguf/xlmr-odd-bf16", "gguf/xlmr-classifier-f32", "gguf/nomic-released-bf16", "gguf/modernbert-v4-bf16"}) {
    INFO(name);
    const ModelDir place;
    const std::string from = QINFER_TEST_FIXTURES "/" + std::string(name) + ".gguf", out = place.file("again.gguf");
    qinfer_error err;
    const qinfer_status status = try_export(from, out, nullptr, err);
    INFO(err.message);
    REQUIRE(status == QINFER_OK);
    CHECK(logits_on(runtime, out) == logits_on(runtime, from));
  }
}

TEST_CASE("What a GGUF file says of sampling, and its name, are kept when it is packed and exported",
          "[gguf][export]") {
  GgufFile file = tiny_gguf();
  file.keys.set("general.name", "A tiny one");
  file.keys.set("general.sampling.temp", 0.25F);
  file.keys.set("general.sampling.top_k", 7U);
  file.keys.set("general.sampling.sequence", "kpmt");
  const ModelDir dir;
  dir.write("model.gguf", file.bytes());
  const std::string from = dir.file("model.gguf"), out = dir.file("out.gguf"), packed = dir.file("packed");
  const std::map<std::string, std::string> want = {{"temp", "0.25"}, {"top_k", "7"}, {"sequence", "kpmt"}};
  REQUIRE(sampling_of(from) == want);
  qinfer_error err;
  REQUIRE(try_export(from, out, nullptr, err) == QINFER_OK);
  CHECK(sampling_of(out) == want);
  REQUIRE_OK(qinfer_model_pack(make_runtime(1, "reference").get(), from.c_str(), nullptr, packed.c_str(), &err));
  CHECK(sampling_of(packed) == want);
  for (const std::string& path : {from, out, packed}) {
    const Model model = load_model(make_runtime(1, "reference"), path);
    auto info = sized<qinfer_model_info>();
    REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
    CHECK(std::string(info.name) == "A tiny one");
  }
}

/// transformers samples with temperature 1 and top-k 50 where do_sample is true and nothing more is said; llama.cpp's
/// converter copies the numbers that are there.
TEST_CASE("What generation_config.json says of sampling is exported under llama.cpp's keys", "[gguf][export]") {
  using Values = std::map<std::string, std::string>;
  const std::pair<const char*, Values> cases[] = {
      {R"({})", {}},
      {R"({"repetition_penalty": 1.5})", {{"penalty_repeat", "1.5"}}},
      {R"({"do_sample": true})", {{"temp", "1"}, {"top_k", "50"}, {"top_p", "1"}, {"min_p", "0"}}},
      {R"({"do_sample": false, "temperature": 0.5, "top_k": 20})",
       {{"temp", "0"}, {"top_k", "20"}, {"top_p", "1"}, {"min_p", "0"}}},
      {R"({"temperature": 0.5, "top_p": 0.75, "min_p": 0.125, "top_k": -1, "repetition_penalty": 1.25})",
       {{"temp", "0.5"}, {"top_k", "0"}, {"top_p", "0.75"}, {"min_p", "0.125"}, {"penalty_repeat", "1.25"}}},
      {R"({"do_sample": true, "temperature": null, "top_k": 1e300, "top_p": "0.9", "min_p": NaN})",
       {{"temp", "1"}, {"top_k", "1000000000"}, {"top_p", "1"}, {"min_p", "0"}}}};
  for (const auto& [text, want] : cases) {
    INFO(text);
    const ModelDir dir{TinySpec()};
    dir.write("generation_config.json", text);
    qinfer_error err;
    REQUIRE(try_export(dir.path(), dir.file("out.gguf"), nullptr, err) == QINFER_OK);
    CHECK(sampling_of(dir.file("out.gguf")) == want);
  }
}

TEST_CASE("An exported tokenizer is the tokenizer.json, and llama.cpp's keys give the same tokens", "[gguf][export]") {
  const ModelDir place;
  const std::string out = place.file("stories.gguf"), model = QINFER_TEST_MODELS "/tiny-stories";
  qinfer_error err;
  REQUIRE(try_export(model, out, nullptr, err) == QINFER_OK);
  const formats::Gguf gguf = open_gguf(out);
  CHECK(*gguf.metadata().string("tokenizer.ggml.model").value() == "gpt2");
  CHECK(*gguf.metadata().string("tokenizer.ggml.pre").value() == "qwen2");
  CHECK(gguf.metadata().find("tokenizer.ggml.tokens")->count == 1024);
  CHECK(gguf.metadata().find("tokenizer.ggml.merges")->count == 767);
  CHECK(gguf.metadata().has("tokenizer.huggingface.json"));
  // Without the whole file the keys for llama.cpp are what is read.
  std::string bytes = place.read("stories.gguf");
  const std::size_t at = bytes.find("tokenizer.huggingface.json");
  REQUIRE(at != bytes.npos);
  bytes.replace(at, 26, "tokenizer.huggingface.not_");
  place.write("keys.gguf", bytes);
  const Runtime runtime = make_runtime(2, "reference");
  const std::string text = "Once upon a time, there were 12 little <|endoftext|> dogs\n\n  and caf\xc3\xa9s! ";
  const auto tokens = [&](const std::string& path) {
    const Model loaded = load_model(runtime, path);
    std::vector<qinfer_token> ids(200);
    std::size_t n = 0;
    REQUIRE_OK(qinfer_tokenize(loaded.get(), text.data(), text.size(), QINFER_TEXT_PARSE_SPECIAL, ids.data(),
                               ids.size(), &n, &err));
    ids.resize(n);
    return ids;
  };
  const auto want = tokens(model);
  CHECK(tokens(out) == want);
  CHECK(tokens(place.file("keys.gguf")) == want);
}

TEST_CASE("What llama.cpp will not read as it is meant is said in the log", "[gguf][export]") {
  struct Case {
    const char *name, *note;
  };
  for (const Case& test : {Case{"mistral-window-bf16", "sliding window"}, Case{"olmo2-odd-bf16", "tied"},
                           Case{"qwen3moe-dense-f32", "without experts"}, Case{"qwen3-yarn-f32", "beta_fast"},
                           Case{"modernbert-biases-f32", "with biases"}, Case{"modernbert-f32", ""},
                           Case{"bert-f32", ""}, Case{"qwen3moe-f32", ""}}) {
    INFO(test.name);
    const ModelDir place;
    std::string log;
    auto options = sized<qinfer_runtime_options>();
    options.n_threads = 1;
    options.log = [](std::int32_t, const char* line, std::size_t n, void* user) {
      static_cast<std::string*>(user)->append(line, n);
    };
    options.log_user = &log;
    qinfer_runtime* runtime = nullptr;
    REQUIRE_OK(qinfer_runtime_create(&options, &runtime, &err));
    const Runtime owner(runtime);
    REQUIRE_OK(
        qinfer_model_export_gguf(runtime, fixture(test.name).c_str(), nullptr, place.file("x.gguf").c_str(), &err));
    CHECK_THAT(log, contains(test.note));
    CHECK(log.empty() == (*test.note == 0));
  }
}

/// A tiny model with one of the tokenizers of the fixtures.
void write_with_tokenizer(const ModelDir& dir, const std::string& tokenizer, std::uint32_t vocab) {
  TinySpec spec;
  spec.vocab = vocab;
  dir.write("config.json", tiny_config(spec).dump());
  dir.write_tensors(tiny_tensors(spec));
  std::ifstream in(QINFER_TEST_FIXTURES "/tokenizers/" + tokenizer + ".json", std::ios::binary);
  dir.write("tokenizer.json", std::string(std::istreambuf_iterator<char>(in), {}));
}

TEST_CASE("Tokenizers that llama.cpp's keys can say are in them, and others are not", "[gguf][export]") {
  struct Case {
    const char *name, *model, *pre;
  };
  for (const Case& test :
       {Case{"gpt2", "gpt2", "gpt-2"}, Case{"qwen", "gpt2", "qwen2"}, Case{"digits", "gpt2", "smollm"},
        Case{"o200k", "gpt2", "gpt-4o"}, Case{"regex_code", "none", ""}, Case{"split_string", "none", ""},
        Case{"some_bytes", "none", ""},
        // Merges that are not those of all pairs.
        Case{"llama2", "none", ""}, Case{"gemma", "none", ""}}) {
    INFO(test.name);
    const ModelDir dir;
    write_with_tokenizer(dir, test.name, 512);
    qinfer_error err;
    const qinfer_status status = try_export(dir.path(), dir.file("x.gguf"), nullptr, err);
    INFO(err.message);
    REQUIRE(status == QINFER_OK);
    const formats::Gguf gguf = open_gguf(dir.file("x.gguf"));
    CHECK(*gguf.metadata().string("tokenizer.ggml.model").value() == test.model);
    CHECK(gguf.metadata().has("tokenizer.huggingface.json"));
    if (*test.pre != 0) CHECK(*gguf.metadata().string("tokenizer.ggml.pre").value() == test.pre);
  }
}

TEST_CASE("Exporting refuses what it cannot do, by name", "[gguf][export]") {
  const ModelDir dir{TinySpec()};
  qinfer_error err;
  CHECK(try_export(fixture("gemma3-encoder-f32"), dir.file("x.gguf"), nullptr, err) == QINFER_E_UNSUPPORTED);
  CHECK_THAT(err.message, contains("attention_scale"));
  CHECK(try_export(dir.path(), dir.file("x.gguf"), "f16", err) == QINFER_E_UNSUPPORTED);
  CHECK_THAT(err.message, contains("q4_k_m"));
  CHECK(try_export(dir.path(), dir.file("config.json"), nullptr, err) == QINFER_E_INVALID_ARGUMENT);
  dir.write("other", "something else");
  CHECK(try_export(dir.path(), dir.file("other"), nullptr, err) == QINFER_E_FORMAT);
  CHECK(dir.read("other") == "something else");
  auto options = sized<qinfer_load_options>();
  options.progress = [](std::uint64_t, std::uint64_t, void*) { return 1; };
  CHECK(qinfer_model_export_gguf(nullptr, dir.path().c_str(), &options, dir.file("x.gguf").c_str(), &err) ==
        QINFER_E_CANCELLED);
  CHECK_FALSE(fs::exists(dir.file("x.gguf")));
}

TEST_CASE("Exporting refuses tensors that have the right number of values in another shape", "[gguf][export]") {
  struct Case {
    const char* name;
    std::vector<std::uint64_t> shape;
  };
  TinySpec spec;
  spec.architecture = "Qwen3MoeForCausalLM";
  spec.experts = 4;
  const Case cases[] = {{"model.layers.0.mlp.gate.weight", {16, 4}},
                        {"model.layers.1.self_attn.q_proj.weight", {2, 8, 16}},
                        {"model.layers.1.self_attn.q_proj.weight", {1, 16, 16}},
                        {"model.layers.1.self_attn.v_proj.weight", {16, 8}},
                        {"model.layers.1.input_layernorm.weight", {1, 16}},
                        {"model.norm.weight", {16, 1}},
                        {"model.layers.0.mlp.experts.2.down_proj.weight", {24, 16}}};
  for (const Case& c : cases)
    for (const char* format : {static_cast<const char*>(nullptr), "q8_0"}) {
      const ModelDir dir(spec);
      INFO(c.name << " " << c.shape.size() << " dimensions, as " << (format != nullptr ? format : "it is"));
      write_changed(dir, spec, [&](std::vector<TinyTensor>& tensors) {
        TinyTensor& tensor = find_tensor(tensors, c.name);
        REQUIRE(tensor.shape != c.shape);
        tensor.shape = c.shape;
      });
      qinfer_error err;
      CHECK(try_export(dir.path(), dir.file("x.gguf"), format, err) == QINFER_E_FORMAT);
      CHECK_THAT(err.message, contains("has the shape"));
      CHECK_FALSE(fs::exists(dir.file("x.gguf")));
    }
}
