// See mutated_files.h.
#include "mutated_files.h"

#include <cstdio>
#include <cstring>

#include "api_support.h"
#include "support/checkpoint_writer.h"

namespace qinfer::fuzz {
namespace {

/// A promise of the library is broken.
[[noreturn]] void broken(const char* what, const char* detail = "") {
  std::fprintf(stderr, "broken: %s %s\n", what, detail);
  __builtin_trap();
}

/// Whether a call succeeded; where not, it must have said why.
bool good(qinfer_status status, const qinfer_error& err) {
  if (status == QINFER_OK) return true;
  if (status == QINFER_E_INTERNAL) broken("QINFER_E_INTERNAL:", err.message);
  if (err.code != status) broken("the status and the error's code differ:", err.message);
  if (std::memchr(err.message, '\0', sizeof err.message) == nullptr) broken("the message has no end");
  if (err.message[0] == '\0') broken("a failure without a message:", qinfer_status_name(status));
  return false;
}

void must(qinfer_status status, const qinfer_error& err) {
  if (status != QINFER_OK) broken("what must succeed failed:", err.message);
}

const std::vector<std::string>& known_in_config() {
  static const std::vector<std::string> values = {
      R"(["LlamaForCausalLM"])",
      R"(["Qwen3ForCausalLM"])",
      R"(["MistralForCausalLM"])",
      R"(["Phi3ForCausalLM"])",
      R"(["SmolLM3ForCausalLM"])",
      R"(["GraniteForCausalLM"])",
      R"(["Gemma2ForCausalLM"])",
      R"(["Gemma3ForCausalLM"])",
      R"(["Gemma3TextModel"])",
      R"(["Olmo2ForCausalLM"])",
      R"(["Qwen3MoeForCausalLM"])",
      R"(["Qwen2MoeForCausalLM"])",
      R"(["MixtralForCausalLM"])",
      R"(["Olmo3ForCausalLM"])",
      R"(["Exaone4ForCausalLM"])",
      R"(["SeedOssForCausalLM"])",
      R"(["Ernie4_5ForCausalLM"])",
      R"(["GraniteMoeHybridForCausalLM"])",
      R"(["GemmaForCausalLM"])",
      R"(["attention","attention"])",
      R"({"rope_type":"linear","factor":2.0,"rope_theta":1e4})",
      R"({"rope_type":"yarn","factor":4.0,"rope_theta":1e6,"original_max_position_embeddings":64,"beta_fast":32,"beta_slow":1})",
      R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":64,"rope_theta":5e5})",
      R"({"full_attention":{"rope_type":"default","rope_theta":1e6},"sliding_attention":{"rope_type":"default","rope_theta":1e4}})",
      R"(["full_attention","sliding_attention"])",
      R"("sliding_attention")",
      R"("bfloat16")",
      R"("float16")",
      R"("silu")",
      R"("gelu_pytorch_tanh")",
      R"([262,263])",
      R"([-1])"};
  return values;
}

const std::vector<std::string>& known_in_tokenizer() {
  static const std::vector<std::string> values = {
      R"({"type":"Split","pattern":{"Regex":"\\s+|\\p{L}+"},"behavior":"Isolated","invert":false})",
      R"({"type":"Split","pattern":{"String":"a"},"behavior":"MergedWithNext","invert":true})",
      R"({"type":"Split","pattern":{"Regex":"(?=a)|$"},"behavior":"Contiguous","invert":false})",
      R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":false}]})",
      R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":true})",
      R"({"type":"NFC"})",
      R"({"type":"Prepend","prepend":"\u2581"})",
      R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})",
      R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"Regex":" +"},"content":""}]})",
      R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
      R"({"id":5,"content":"t","single_word":true,"lstrip":true,"rstrip":true,"normalized":true,"special":false})",
      R"({"id":264,"content":"<x>","single_word":false,"lstrip":true,"rstrip":false,"normalized":false,"special":true})",
      R"([["t","h"],["h","e"]])",
      R"(["t h","th e"])",
      R"("t h")",
      R"("Isolated")",
      R"("Removed")",
      R"("MergedWithPrevious")",
      R"({"Regex":"a*"})",
      R"({"String":""})",
      R"("ByteLevel")",
      R"("<s>")",
      R"("<0x41>")"};
  return values;
}

bool plan(const std::string& path) {
  auto memory = sized<qinfer_memory>();
  const auto cache = sized<qinfer_kv_cache_options>();
  const auto session = sized<qinfer_session_options>();
  auto runtime = sized<qinfer_runtime_options>();
  runtime.n_threads = 1;
  qinfer_error err = {};
  if (!good(qinfer_model_plan(path.c_str(), &runtime, nullptr, &cache, &session, &memory, &err), err)) return false;
  if (memory.total != memory.weights_mapped + memory.weights_private + memory.tables + memory.scratch +
                          memory.kv_cache_bytes + memory.kv_lists)
    broken("a plan's total is not the sum of its parts");
  return true;
}

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::size_t kMostText = 200;

}  // namespace

const char* name_of(File file) {
  static constexpr const char* kNames[] = {"config.json",  "safetensors header", "index",     "tokenizer.json",
                                           "packed model", "snapshot",           "GGUF file", "packed GGUF file"};
  return kNames[static_cast<int>(file)];
}

struct MutatedFiles::State {
  static test::TinySpec spec() {
    test::TinySpec spec;
    spec.architecture = "Qwen2ForCausalLM";
    spec.shards = 2, spec.window = 40, spec.full_layers = 1;
    return spec;
  }

  /// Of all architectures, some with experts, most quantised.
  static std::vector<test::TinyGguf> gguf_specs() {
    std::vector<test::TinyGguf> specs(6);
    specs[1].type = 8, specs[1].layers = 2;
    specs[2].experts = 4, specs[2].type = 2;
    specs[3].hidden = specs[3].ffn = 256, specs[3].type = 12;
    specs[4].hidden = specs[4].ffn = 256, specs[4].type = 14, specs[4].architecture = "smollm3";
    specs[5].type = 39;
    return specs;
  }
  test::GgufFile gguf(std::size_t i) const {
    test::GgufFile file = test::tiny_gguf(ggufs[i]);
    if (i % 2 == 0) return file;
    file.keys.set("tokenizer.ggml.model", "llama");
    file.keys.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, -2, 0, 0, -3, -4});
    return file;
  }

  test::ModelDir model{spec()}, changed{spec()};
  const std::string shard = "model-00001-of-00002.safetensors";
  const std::string config = model.read("config.json"), header = model.read(shard), index = model.read(kIndex),
                    tokenizer = model.read("tokenizer.json");
  std::string packed, packed_gguf, snapshot;
  const std::vector<test::TinyGguf> ggufs = gguf_specs();
  SnapshotShape shape;
  qinfer_runtime* runtime = nullptr;
  qinfer_model* loaded = nullptr;
  qinfer_kv_cache* cache = nullptr;
};

MutatedFiles::MutatedFiles() : state_(std::make_unique<State>()) {
  State& s = *state_;
  qinfer_error err = {};
  auto options = sized<qinfer_runtime_options>();
  options.n_threads = 1;
  must(qinfer_runtime_create(&options, &s.runtime, &err), err);
  must(qinfer_model_load(s.runtime, s.model.path().c_str(), nullptr, &s.loaded, &err), err);
  must(qinfer_model_pack(s.runtime, s.model.path().c_str(), nullptr, s.changed.file("base.packed").c_str(), &err), err);
  s.packed = s.changed.read("base.packed");
  s.changed.write("base.gguf", s.gguf(3).bytes());
  must(qinfer_model_pack(s.runtime, s.changed.file("base.gguf").c_str(), nullptr, s.changed.file("base.packed").c_str(),
                         &err),
       err);
  s.packed_gguf = s.changed.read("base.packed");
  auto cache_options = sized<qinfer_kv_cache_options>();
  cache_options.budget_blocks = 16;
  must(qinfer_kv_cache_create(s.loaded, &cache_options, &s.cache, &err), err);
  qinfer_session* session = nullptr;
  must(qinfer_session_create(s.cache, nullptr, &session, &err), err);
  const std::vector<qinfer_token> tokens(75, 7);
  // Two states, as after saving twice.
  for (const std::size_t n : {std::size_t{40}, std::size_t{35}}) {
    must(qinfer_session_append(session, tokens.data(), n, &err), err);
    must(qinfer_eval(&session, 1, nullptr, &err), err);
    must(qinfer_session_save(session, s.changed.file("base.kv").c_str(), &err), err);
  }
  qinfer_session_free(session);
  s.snapshot = s.changed.read("base.kv");
  s.shape = shape_of_snapshot(s.snapshot);
  if (s.shape.sums.size() < 3) broken("the snapshot's checksums are not where they are looked for");
}

MutatedFiles::~MutatedFiles() {
  qinfer_kv_cache_free(state_->cache);
  qinfer_model_free(state_->loaded);
  qinfer_runtime_free(state_->runtime);
}

bool MutatedFiles::run(File file, std::string_view input) {
  State& s = *state_;
  Choices choices(input);
  const auto in_directory = [&](const std::string& name, const std::string& base, const std::string& bytes) {
    s.changed.write(name, bytes);
    const bool accepted = run_directory(choices);
    s.changed.write(name, base);
    return accepted;
  };
  switch (file) {
    case File::config: return in_directory("config.json", s.config, mutate_json(s.config, known_in_config(), choices));
    case File::header: return in_directory(s.shard, s.header, mutate_safetensors(s.header, choices));
    case File::index: {
      static const std::vector<std::string> known = {
          "\"" + s.shard + "\"", "\"model.safetensors\"", "\"config.json\"", "\"/dev/null\"", "\"..\"",
          "\"a\\u0000b\""};
      return in_directory(kIndex, s.index, mutate_json(s.index, known, choices));
    }
    case File::tokenizer:
      return in_directory("tokenizer.json", s.tokenizer, mutate_json(s.tokenizer, known_in_tokenizer(), choices));
    case File::packed: return run_file("model.packed", mutate_packed(s.packed, choices), choices);
    case File::packed_gguf: return run_file("model.packed", mutate_packed(s.packed_gguf, choices), choices);
    case File::gguf: {
      const std::size_t i = choices.below(s.ggufs.size());
      return run_file("model.gguf", mutate_gguf(s.gguf(i), s.ggufs[i].architecture, choices), choices);
    }
    case File::snapshot: return run_snapshot(mutate_snapshot(s.snapshot, s.shape, choices));
  }
  return false;
}

bool MutatedFiles::repairs_to_itself(File file) {
  State& s = *state_;
  Choices none({});
  if (file == File::packed || file == File::packed_gguf) {
    const std::string& original = file == File::packed ? s.packed : s.packed_gguf;
    std::string bytes = original;
    repair_packed(bytes);
    return bytes == original && run_file("model.packed", bytes, none);
  }
  if (file == File::gguf) {
    for (std::size_t i = 0; i < s.ggufs.size(); ++i)
      if (!run_file("model.gguf", s.gguf(i).bytes(), none)) return false;
    return true;
  }
  if (file == File::snapshot) {
    std::string bytes = s.snapshot;
    repair_snapshot(bytes, s.shape);
    return bytes == s.snapshot && run_snapshot(bytes);
  }
  return run_directory(none);
}

/// Plans (which looks at the whole machine, and so is slow) and loads the changed directory as far as it goes.
bool MutatedFiles::run_directory(Choices& choices) {
  State& s = *state_;
  auto options = sized<qinfer_load_options>();
  options.memory_budget_bytes = 64 << 20;
  options.flags = QINFER_LOAD_VERIFY;
  const std::string path = s.changed.path();
  qinfer_error err = {};
  qinfer_model* model = nullptr;
  const qinfer_status status = qinfer_model_load(s.runtime, path.c_str(), &options, &model, &err);
  const bool loaded = good(status, err);
  if (loaded != (model != nullptr)) broken("the output handle does not fit the status");
  if (choices.one_of(4)) plan(s.changed.file("config.json"));  // alone, it may be of any size
  const bool planned = !choices.one_of(4) || plan(path);
  if (!loaded) return false;
  if (!planned) broken("a model that cannot be planned was loaded");
  const bool works = evaluates(model, choices);
  qinfer_model_free(model);
  return works;
}

bool MutatedFiles::run_file(const std::string& name, const std::string& bytes, Choices& choices) {
  State& s = *state_;
  s.changed.remove(name);  // writing anew is faster than replacing
  s.changed.write(name, bytes);
  auto options = sized<qinfer_load_options>();
  options.memory_budget_bytes = 64 << 20;
  if (choices.one_of(2)) options.flags = QINFER_LOAD_VERIFY;
  qinfer_error err = {};
  const std::string path = s.changed.file(name);
  if (choices.one_of(4)) plan(path);
  qinfer_model* model = nullptr;
  if (!good(qinfer_model_load(s.runtime, path.c_str(), &options, &model, &err), err)) return false;
  const bool works = evaluates(model, choices);
  qinfer_model_free(model);
  return works;
}

bool MutatedFiles::run_snapshot(const std::string& bytes) {
  State& s = *state_;
  s.changed.write("changed.kv", bytes);
  qinfer_error err = {};
  qinfer_session* session = nullptr;
  if (!good(qinfer_session_load(s.cache, s.changed.file("changed.kv").c_str(), &session, &err), err)) {
    if (session != nullptr) broken("a session came of a failed load");
    return false;
  }
  qinfer_token token = 0;
  if (good(qinfer_eval(&session, 1, nullptr, &err), err))
    static_cast<void>(good(qinfer_session_sample(session, &token, &err), err));
  static_cast<void>(good(qinfer_session_truncate(session, qinfer_session_length(session) / 2, &err), err));
  static_cast<void>(good(qinfer_eval(&session, 1, nullptr, &err), err));
  // To a file that may be damaged in a way that nothing told.
  static_cast<void>(good(qinfer_session_save(session, s.changed.file("changed.kv").c_str(), &err), err));
  qinfer_session_free(session);
  return true;
}

/// A session on the model, and a text through its tokenizer.
bool MutatedFiles::evaluates(qinfer_model* model, Choices& choices) {
  qinfer_error err = {};
  auto info = sized<qinfer_model_info>();
  must(qinfer_model_get_info(model, &info, &err), err);
  std::vector<qinfer_token> tokens(16 * kMostText);
  std::size_t n = 0;
  const std::string text = "Hello  the 12 \u4f60 <s>" + choices.text(kMostText);
  for (const std::uint32_t flags : {0u, std::uint32_t{QINFER_TEXT_ADD_SPECIAL | QINFER_TEXT_PARSE_SPECIAL}}) {
    if (!good(qinfer_tokenize(model, text.data(), text.size(), flags, tokens.data(), tokens.size(), &n, &err), err))
      continue;
    qinfer_detok* detok = nullptr;
    if (!good(qinfer_detok_create(model, &detok, &err), err)) continue;
    std::size_t n_text = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (tokens[i] < 0 || static_cast<std::uint32_t>(tokens[i]) >= info.n_vocab)
        broken("a token beyond the vocabulary");
      std::vector<char> out(info.max_token_bytes * 3 + 16);  // fresh, so that a sanitizer sees a byte too many
      must(qinfer_detok_push(detok, tokens[i], out.data(), out.size(), &n_text, &err), err);
    }
    qinfer_detok_free(detok);
  }
  if ((info.flags & QINFER_MODEL_ENCODER) != 0) return true;
  qinfer_kv_cache* cache = nullptr;
  qinfer_session* session = nullptr;
  auto cache_options = sized<qinfer_kv_cache_options>();
  cache_options.budget_blocks = 4;
  auto session_options = sized<qinfer_session_options>();
  session_options.max_tokens = 8;
  bool works = good(qinfer_kv_cache_create(model, &cache_options, &cache, &err), err) &&
               good(qinfer_session_create(cache, &session_options, &session, &err), err);
  const qinfer_token few[] = {0, 0, 0};
  works = works && good(qinfer_session_append(session, few, 3, &err), err) &&
          good(qinfer_eval(&session, 1, nullptr, &err), err);
  qinfer_session_free(session);
  qinfer_kv_cache_free(cache);
  return works;
}

}  // namespace qinfer::fuzz
