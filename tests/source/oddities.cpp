// Model files as people find them: ids that no token has, texts that two tokens have, types that are missing, names
// without their prefix, folders of other programs. What everything else loads is loaded here, with a note on what was
// passed over; what is not a model is called what it is.
#include <qinfer/qinfer.hpp>

#include <functional>
#include <map>

#include "support/c_api.h"
#include "support/gguf_writer.h"

using namespace qinfer::test;

namespace {

std::vector<std::string> notes_of(const qi::Model& model) {
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < model.meta_count(); ++i)
    if (const std::string key(model.meta_key(i)); key.starts_with("qinfer.note."))
      notes.emplace_back(model.meta(key).value_or(""));
  return notes;
}

void require_note(const qi::Model& model, const std::string& text) {
  const std::vector<std::string> notes = notes_of(model);
  REQUIRE(notes.size() == 1);
  REQUIRE_THAT(notes[0], contains(text));
}

void set_field(const ModelDir& dir, const char* file, const char* key, const std::string& json) {
  auto object = nlohmann::json::parse(dir.read(file));
  object[key] = nlohmann::json::parse(json);
  dir.write(file, object.dump());
}

std::vector<float> embedding_of(const qi::Model& model, std::int32_t pooling = QINFER_POOL_DEFAULT) {
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.flags = QINFER_SESSION_EMBEDDINGS;
  qi::Session session(cache, options);
  session.append({1, 4, 2, 3});
  session.eval();
  return session.embedding(pooling);
}

GgufFile gguf_with(const std::function<void(GgufFile&)>& change) {
  GgufFile file = tiny_gguf();
  change(file);
  return file;
}

qi::Model load_gguf(const GgufFile& file) {
  const ModelDir dir;
  dir.write("model.gguf", file.bytes());
  return qi::Model::load(dir.file("model.gguf"));
}

}  // namespace

TEST_CASE("ids beyond the vocabulary are passed over, whatever field has them", "[source][oddities]") {
  const ModelDir dir{TinySpec()};
  const char* file = GENERATE("config.json", "generation_config.json");
  const bool in_list = GENERATE(false, true);
  const std::string id = GENERATE("300", "4294967295");
  CAPTURE(file, in_list, id);
  dir.write("generation_config.json", "{}");
  set_field(dir, file, "eos_token_id", in_list ? "[" + id + ", 7]" : id);
  const qi::Model model = qi::Model::load(dir.path());
  const std::vector<qi::Token> ends = model.end_tokens();
  CHECK((std::find(ends.begin(), ends.end(), 7) != ends.end()) == in_list);
  CHECK(std::all_of(ends.begin(), ends.end(), [](qi::Token token) { return token < 300; }));
  require_note(model, std::string(file) + ": \"eos_token_id\" holds " + id);
  set_field(dir, file, "eos_token_id", "[]");
  set_field(dir, file, "bos_token_id", id);
  const qi::Model other = qi::Model::load(dir.path());
  CHECK(other.info().bos_token == -1);
  require_note(other, std::string(file) + ": \"bos_token_id\" holds " + id);
}

TEST_CASE("ids beyond the vocabulary of a GGUF file are passed over", "[source][oddities]") {
  const std::string key = GENERATE("bos", "eos", "eot", "eom", "padding", "unknown");
  const std::string name = "tokenizer.ggml." + key + "_token_id";
  const qi::Model model = load_gguf(gguf_with([&](GgufFile& file) { file.keys.set(name, 9U); }));
  CHECK(model.end_tokens() == std::vector<qi::Token>{5});  // <|im_end|>, if only by its name
  require_note(model, "key \"" + name + "\" is 9, but there are only ids below 9");
}

TEST_CASE("an added token beyond the embedding is text", "[source][oddities]") {
  const ModelDir dir{TinySpec()};
  const std::vector<qi::Token> spelled = qi::Model::load(dir.path()).tokenize("[PAD]", QINFER_TEXT_PARSE_SPECIAL);
  auto tokenizer = nlohmann::json::parse(dir.read("tokenizer.json"));
  auto pad = tokenizer["added_tokens"][0];
  pad["id"] = 300;
  pad["content"] = "[PAD]";
  tokenizer["added_tokens"].push_back(pad);
  dir.write("tokenizer.json", tokenizer.dump());
  const qi::Model model = qi::Model::load(dir.path());
  CHECK(model.tokenize("[PAD]", QINFER_TEXT_PARSE_SPECIAL) == spelled);
  require_note(model, "the token \"[PAD]\" has the id 300");
}

TEST_CASE("a text that two tokens of a GGUF file have becomes the first, and both are decoded", "[source][oddities]") {
  const qi::Model model = load_gguf(gguf_with([](GgufFile& file) {
    file.keys.set("tokenizer.ggml.tokens",
                  std::vector<std::string>{"a", "b", "\u0120", "ab", "\u0120a", "<|im_end|>", "<x>", "a", "<x>"});
    file.keys.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1, 1, 3, 4, 1, 3});
  }));
  CHECK(model.tokenize("a b<x>", QINFER_TEXT_PARSE_SPECIAL) == std::vector<qi::Token>{0, 2, 1, 6});
  CHECK(model.token_text(7) == "a");
  CHECK((model.token_flags(8) & QINFER_TOKEN_CONTROL) != 0);
  CHECK(notes_of(model).size() == 2);
}

TEST_CASE("a GGUF file without types of tokens", "[source][oddities]") {
  const qi::Model model = load_gguf(gguf_with([](GgufFile& file) { file.keys.remove("tokenizer.ggml.token_type"); }));
  CHECK(model.end_tokens() == std::vector<qi::Token>{5});
  CHECK(model.tokenize("ab<|im_end|>", QINFER_TEXT_PARSE_SPECIAL) == std::vector<qi::Token>{3, 5});
  require_note(model, "tokenizer.ggml.token_type");
  const qi::Model unnamed = load_gguf(gguf_with([](GgufFile& file) {
    file.keys.remove("tokenizer.ggml.token_type");
    file.keys.remove("tokenizer.ggml.eos_token_id");
  }));
  CHECK(unnamed.end_tokens() == std::vector<qi::Token>{5});  // by its name alone
  CHECK(unnamed.tokenize("ab<|im_end|>", QINFER_TEXT_PARSE_SPECIAL) == std::vector<qi::Token>{3, 5});
  const qi::Model by_scores = load_gguf(gguf_with([](GgufFile& file) {
    file.keys.remove("tokenizer.ggml.token_type");
    file.keys.remove("tokenizer.ggml.merges");
    file.keys.remove("tokenizer.ggml.eos_token_id");
    file.keys.set("tokenizer.ggml.model", "llama");
    file.keys.set("tokenizer.ggml.tokens",
                  std::vector<std::string>{"<unk>", "<s>", "</s>", "a", "b", "ab", "\u2581", "<0x41>", "<0x42>"});
    file.keys.set("tokenizer.ggml.scores", std::vector<float>(9, 0.0F));
  }));
  CHECK(by_scores.tokenize("A</s>", QINFER_TEXT_PARSE_SPECIAL) == std::vector<qi::Token>{6, 7, 2});
  CHECK(by_scores.end_tokens() == std::vector<qi::Token>{2});
}

TEST_CASE("tensors may be named without \"model.\", and the LM head be absent", "[source][oddities]") {
  const std::string architecture = GENERATE("Qwen3ForCausalLM", "LlamaForCausalLM", "Phi3ForCausalLM");
  const bool bare = GENERATE(false, true), headless = GENERATE(false, true);
  CAPTURE(architecture, bare, headless);
  TinySpec spec;
  spec.architecture = architecture;
  const ModelDir plain{spec}, dir{spec};
  std::vector<TinyTensor> tensors;
  for (TinyTensor& tensor : tiny_tensors(spec)) {
    if (headless && tensor.name == "lm_head.weight") continue;
    if (bare && tensor.name.starts_with("model.")) tensor.name = tensor.name.substr(6);
    tensors.push_back(tensor);
  }
  dir.write_tensors(tensors);
  const qi::Model model = qi::Model::load(dir.path());
  REQUIRE(embedding_of(model) == embedding_of(qi::Model::load(plain.path())));
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append({1, 4});
  if (!headless) {
    session.eval();
    REQUIRE(session.logits() != nullptr);
    REQUIRE(notes_of(model).empty());
    return;
  }
  require_note(model, "there is no tensor lm_head.weight");
  REQUIRE((model.info().flags & QINFER_MODEL_NO_LM_HEAD) != 0);
  REQUIRE((model.info().flags & QINFER_MODEL_TIED_EMBEDDINGS) == 0);
  session.eval();
  REQUIRE(session.embedding() == session.embedding(QINFER_POOL_LAST));
  qinfer_token token = 0;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "no lm_head.weight", qinfer_session_sample(session.native(), &token, &err));
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "no lm_head.weight", qinfer_generate(session.native(), nullptr, nullptr, &err));
}

TEST_CASE("a GGUF decoder's kind of pooling is the default of its embeddings", "[source][oddities]") {
  const auto pooled = [](std::uint32_t pooling) {
    return load_gguf(gguf_with([&](GgufFile& file) { file.keys.set("llama.pooling_type", pooling); }));
  };
  const qi::Model mean = pooled(1), last = pooled(3);
  REQUIRE(embedding_of(mean) == embedding_of(mean, QINFER_POOL_MEAN));
  REQUIRE(embedding_of(last) == embedding_of(last, QINFER_POOL_LAST));
  REQUIRE(embedding_of(last) != embedding_of(last, QINFER_POOL_MEAN));
  for (const std::uint32_t pooling : {2U, 4U, 77U}) {
    const ModelDir dir;
    dir.write("model.gguf", gguf_with([&](GgufFile& file) { file.keys.set("llama.pooling_type", pooling); }).bytes());
    qinfer_model* loaded = nullptr;
    REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "llama.pooling_type\" is " + std::to_string(pooling),
                  qinfer_model_load(nullptr, dir.file("model.gguf").c_str(), nullptr, &loaded, &err));
  }
}

TEST_CASE("numbers that only Python's JSON has refuse nothing where nobody reads them", "[source][oddities]") {
  const ModelDir dir{TinySpec()};
  std::string config = dir.read("config.json");
  config.insert(config.find('{') + 1,
                R"("a": NaN, "b": [Infinity, {"c": -Infinity}], "d": "\"NaN \\", "NaN": "Infinity",)");
  dir.write("config.json", config);
  dir.write("generation_config.json", R"({"top_p": NaN, "temperature": 0.6, "do_sample": true})");
  const qi::Model model = qi::Model::load(dir.path());
  CHECK(model.meta("config.a") == "NaN");
  CHECK(model.meta("config.d") == "\"NaN \\");
  CHECK(model.meta("generation.top_p") == "NaN");
  CHECK(model.meta("generation.temperature") == "0.6");
  CHECK(model.meta("generation.do_sample") == "true");
  for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
    auto with = nlohmann::json::parse(tiny_config(TinySpec()).dump());
    with.erase("rms_norm_eps");
    dir.write("config.json", with.dump().insert(1, "\"rms_norm_eps\": " + std::string(number) + ","));
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"rms_norm_eps\" is a string, expected a number", dir);
  }
}

TEST_CASE("an end token of a GGUF file that is no marker stays a part of ordinary text", "[source][oddities]") {
  // "a" ends texts here.
  const qi::Model model =
      load_gguf(gguf_with([](GgufFile& file) { file.keys.set("tokenizer.ggml.eos_token_id", 0U); }));
  CHECK(model.end_tokens() == std::vector<qi::Token>{0, 5});
  auto chat = qi::options<qinfer_chat_options>();
  chat.template_text = "{{ messages[0].content }}<|im_end|>";
  CHECK(model.tokenize_chat(R"({"messages": [{"role": "user", "content": "b aba"}]})", chat) ==
        std::vector<qi::Token>{1, 2, 3, 0, 5});
}

TEST_CASE("what people write is spelled where a file without types has pieces of a marker", "[source][oddities]") {
  const qi::Model model = load_gguf(gguf_with([](GgufFile& file) {
    file.keys.remove("tokenizer.ggml.token_type");
    file.keys.remove("tokenizer.ggml.merges");
    file.keys.remove("tokenizer.ggml.eos_token_id");
    file.keys.set("tokenizer.ggml.model", "llama");
    file.keys.set("tokenizer.ggml.add_space_prefix", false);
    file.keys.set("tokenizer.ggml.tokens",
                  std::vector<std::string>{"<unk>", "<s>", "</s>", "<", "/", "s", ">", "</", "s>"});
    file.keys.set("tokenizer.ggml.scores", std::vector<float>(9, 0.0F));
  }));
  auto chat = qi::options<qinfer_chat_options>();
  chat.template_text = "{{ messages[0].content }}</s>";
  CHECK(model.tokenize_chat(R"({"messages": [{"role": "user", "content": "</s>"}]})", chat) ==
        std::vector<qi::Token>{7, 8, 2});
}

TEST_CASE("fingerprints know nothing of end tokens that names and templates tell", "[source][oddities]") {
  const GgufFile file = gguf_with([](GgufFile& f) { f.keys.remove("tokenizer.ggml.eos_token_id"); });
  const ModelDir dir;
  dir.write("model.gguf", file.bytes());
  const std::string model = dir.file("model.gguf"), packed = dir.file("packed");
  REQUIRE(qi::Model::load(model).end_tokens() == std::vector<qi::Token>{5});
  REQUIRE_OK(qinfer_model_pack(nullptr, model.c_str(), nullptr, packed.c_str(), &err));
  auto options = qi::options<qinfer_load_options>();
  options.packed_path = packed.c_str();
  REQUIRE(qi::Model::load(model, options).end_tokens() == std::vector<qi::Token>{5});
  // A session goes on after its model's template was changed.
  const ModelDir hugging_face{TinySpec()};
  const auto write_template = [&](const char* end) {
    hugging_face.write(
        "tokenizer_config.json",
        nlohmann::json{{"chat_template", std::string("{% for m in messages %}{{ m.content }}") + end + "{% endfor %}"}}
            .dump());
    return qi::Model::load(hugging_face.path());
  };
  const qi::Model before = write_template("</s>"), after = write_template("<s>");
  REQUIRE(before.end_tokens() != after.end_tokens());
  qi::KvCache first(before), second(after);
  qi::Session session(first);
  session.append({1, 2, 3});
  session.eval();
  session.save(dir.file("session"));
  REQUIRE(qi::Session::load(second, dir.file("session")).tokens() == session.tokens());
}

TEST_CASE("a GGUF file of a model that pools by the mean says so", "[source][oddities]") {
  const ModelDir dir;
  dir.write("model.gguf", gguf_with([](GgufFile& file) { file.keys.set("llama.pooling_type", 1U); }).bytes());
  const std::string out = dir.file("out.gguf");
  REQUIRE_OK(qinfer_model_export_gguf(nullptr, dir.file("model.gguf").c_str(), nullptr, out.c_str(), &err));
  const qi::Model model = qi::Model::load(out);
  REQUIRE(embedding_of(model) == embedding_of(model, QINFER_POOL_MEAN));
}

TEST_CASE("a folder with one GGUF file is that model", "[source][oddities]") {
  const GgufFile file = tiny_gguf({.layers = 2});
  const ModelDir dir;
  SECTION("alone, or beside what is no model") {
    dir.write("some-name.gguf", file.bytes());
    dir.write("mmproj-model.gguf", "?");
    dir.write("README.md", "?");
    if (GENERATE(false, true)) dir.write("config.json", "{}");
  }
  SECTION("in parts") {
    for (const auto& [name, bytes] : split_gguf(file, 3)) dir.write(name, bytes);
  }
  for (const std::string& path : {dir.path(), dir.path() + "/"}) {
    REQUIRE(qi::Model::load(path).info().n_layers == 2);
    REQUIRE(qi::inspect(path).n_layers == 2);
    auto options = qi::options<qinfer_load_options>();
    options.flags = QINFER_LOAD_NO_WEIGHTS;
    REQUIRE(qi::Model::load(path, options).info().n_layers == 2);
  }
  const std::string packed = dir.file("packed");
  REQUIRE_OK(qinfer_model_pack(nullptr, dir.path().c_str(), nullptr, packed.c_str(), &err));
  REQUIRE(qi::Model::load(packed).info().n_layers == 2);
}

TEST_CASE("a folder that is no model is called what it is", "[source][oddities]") {
  const std::map<std::string, std::string> bytes = {{"config.json", tiny_config(TinySpec()).dump()}};
  struct Case {
    std::vector<std::string> files;
    const char* message;
  };
  const Case c = GENERATE(values<Case>({
      {{}, "config.json is not there, nor a GGUF file, but nothing"},
      {{"a.txt"}, "config.json is not there, nor a GGUF file, but a.txt"},
      {{"b.gguf", "a.gguf"}, "2 GGUF files are there, give the path of one of them: a.gguf, b.gguf"},
      {{"config.json", "b.gguf", "a.gguf"}, "2 GGUF files are there"},
      {{"config.json", "pytorch_model.bin"}, "pytorch_model.bin is weights as PyTorch pickles them"},
      {{"adapter_config.json", "adapter_model.safetensors"}, "adapter_config.json is an adapter"},
      {{"config.json", "weights.npz"}, "weights.npz is weights of MLX"},
      {{"config.json", "tf_model.h5"}, "tf_model.h5 is weights of TensorFlow"},
      {{"config.json"}, "neither model.safetensors nor model.safetensors.index.json"},
  }));
  const ModelDir dir;
  for (const std::string& name : c.files) dir.write(name, bytes.count(name) != 0 ? bytes.at(name) : "?");
  qinfer_model* loaded = nullptr;
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, c.message, qinfer_model_load(nullptr, dir.path().c_str(), nullptr, &loaded, &err));
}

TEST_CASE("a file that is no model, or is cut, is called that", "[source][oddities]") {
  const ModelDir dir{TinySpec()}, other;
  const std::string packed = other.file("packed"), gguf = tiny_gguf().bytes();
  REQUIRE_OK(qinfer_model_pack(nullptr, dir.path().c_str(), nullptr, packed.c_str(), &err));
  const std::string whole = other.read("packed");
  struct Case {
    std::string bytes;
    const char* message;
  };
  for (const Case& c :
       {Case{"", "not a model"}, Case{"# A page\n\nOf text.", "not a model"},
        Case{std::string(64, '\0'), "not a model"}, Case{gguf.substr(0, gguf.size() - 1), "the file has"},
        Case{gguf.substr(0, 200), "it is cut or damaged"},
        Case{whole.substr(0, whole.size() - 1), "the file is cut or damaged"},
        Case{whole.substr(0, 300), "the file is cut or damaged"}}) {
    other.write("model", c.bytes);
    qinfer_model* loaded = nullptr;
    REQUIRE_FAILS(QINFER_E_FORMAT, c.message,
                  qinfer_model_load(nullptr, other.file("model").c_str(), nullptr, &loaded, &err));
  }
}
