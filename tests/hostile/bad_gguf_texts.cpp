// Texts and tokenizers of GGUF files that are damaged or made to be costly, through the whole of loading; damage of
// single keys of a tokenizer has its tests in gguf_tokenizer.cpp.
#include <sys/resource.h>

#include "support/gguf_loads.h"

using namespace qinfer::test;

namespace {

constexpr const char* kTemplates = "tokenizer.chat_templates";
constexpr const char* kTemplate = "tokenizer.chat_template";

std::string chat_template(const Model& model, const char* name) {
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "", qinfer_model_chat_template(model.get(), name, nullptr, 0, &n, &err));
  std::string text(n, '\0');
  REQUIRE_OK(qinfer_model_chat_template(model.get(), name, text.data(), n + 1, &n, &err));
  text.resize(n);
  return text;
}

/// The most memory that the process has had, in bytes.
std::uint64_t peak_memory() {
  rusage usage = {};
  REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

TEST_CASE("A GGUF chat template has 16 MiB at most", "[bad][gguf]") {
  GgufLoads loads;
  GgufFile file = tiny_gguf();
  file.keys.set(kTemplate, std::string(16 << 20, 'x'));
  const Model model = loads.load(file.bytes());
  REQUIRE(model != nullptr);
  REQUIRE(chat_template(model, nullptr).size() == 16 << 20);
  file.keys.set(kTemplate, std::string((16 << 20) + 1, 'x'));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "of key \"tokenizer.chat_template\"", loads, file.bytes());
  REQUIRE_THAT(std::string(loads.error.message), contains("16777217 bytes, at most 16777216"));
}

TEST_CASE("A name of a GGUF chat template that is there often takes its text once", "[bad][gguf]") {
  GgufLoads loads;
  GgufFile file = tiny_gguf();
  file.keys.set(kTemplates, std::vector<std::string>(200, "a"));
  file.keys.set("tokenizer.chat_template.a", std::string(16 << 20, 'x'));
  const std::string bytes = file.bytes();
  const std::uint64_t before = peak_memory();
  const Model model = loads.load(bytes);
  REQUIRE(model != nullptr);
  REQUIRE(peak_memory() - before < std::uint64_t{1} << 30);
  REQUIRE(chat_template(model, "a").size() == 16 << 20);
  REQUIRE(std::string(qinfer_model_chat_template_name(model.get(), 0)) == "a");
}

TEST_CASE("GGUF chat templates that are no text are missing, and the model works", "[bad][gguf]") {
  GgufLoads loads;
  const auto fails = [&](const GgufFile& file, const std::string& text) {
    const Model model = loads.load(file.bytes());
    REQUIRE(model != nullptr);
    std::size_t n = 0;
    REQUIRE_FAILS(QINFER_E_FORMAT, text, qinfer_model_chat_template(model.get(), nullptr, nullptr, 0, &n, &err));
  };
  GgufFile file = tiny_gguf();
  file.keys.set(kTemplate, "\xc3\x28");
  fails(file, "\"tokenizer.chat_template\" is not valid UTF-8");
  file = tiny_gguf();
  file.keys.set(kTemplate, 1U);
  fails(file, "\"tokenizer.chat_template\" is u32, expected a string");
  for (const std::string& name : {std::string(), std::string("a\0b", 3), std::string("\xff")}) {
    file = tiny_gguf();
    file.keys.set(kTemplates, std::vector<std::string>{name});
    fails(file, "\"tokenizer.chat_templates\" has the name");
  }
  file = tiny_gguf();
  file.keys.set(kTemplates, std::vector<std::string>{"tool_use"});
  fails(file, "\"tokenizer.chat_template.tool_use\" is missing");
}

TEST_CASE("A GGUF file's name that is no UTF-8 is left out", "[bad][gguf]") {
  GgufLoads loads;
  for (const char* name : {"\xc3\x28", "\xff", "\xed\xa0\x80"}) {
    GgufFile file = tiny_gguf();
    file.keys.set("general.name", name);
    const Model model = loads.load(file.bytes());
    REQUIRE(model != nullptr);
    auto info = sized<qinfer_model_info>();
    REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
    REQUIRE(std::string(info.name) == "");
    REQUIRE(qinfer_model_meta_value(model.get(), "gguf.general.name") == nullptr);
  }
  GgufFile file = tiny_gguf();
  file.keys.set("general.name", 7U);
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"general.name\" is u32, expected a string", loads, file.bytes());
}

TEST_CASE("Tokenizers of a GGUF file that do not fit the model", "[bad][gguf]") {
  GgufLoads loads;
  GgufFile file = tiny_gguf();
  file.keys.set("tokenizer.ggml.token_type", std::vector<std::int32_t>(8, 1));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"tokenizer.ggml.token_type\" has 8 values, expected 9", loads, file.bytes());
  // Not one of a list that would take 8 bytes for each.
  file.keys.set_array("tokenizer.ggml.token_type", GgufKeys::u8, 1 << 24, std::string(1 << 24, '\1'));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"tokenizer.ggml.token_type\" has 16777216 values", loads, file.bytes());
  file = tiny_gguf();
  file.keys.set_array("llama.attention.head_count", GgufKeys::u8, 1 << 24, std::string(1 << 24, '\1'));
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"llama.attention.head_count\" has 16777216 values, expected 1", loads,
                     file.bytes());
  TinyGguf fewer;
  fewer.vocab = 8;
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"tokenizer.ggml.tokens\" has 9 tokens, expected at most 8", loads,
                     tiny_gguf(fewer).bytes());
  file = tiny_gguf();
  file.keys.set("tokenizer.ggml.eos_token_id", "9");
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "eos_token_id", loads, file.bytes());
  file = tiny_gguf();
  file.keys.set("tokenizer.ggml.model", "rwkv");
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "tokenizer.ggml.model is \"rwkv\"", loads, file.bytes());
  file.keys.set("tokenizer.ggml.model", 1U);
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "\"tokenizer.ggml.model\" is u32", loads, file.bytes());
  file = tiny_gguf();
  file.keys.set("tokenizer.huggingface.json", "[");
  REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, "tokenizer.huggingface.json", loads, file.bytes());
}

TEST_CASE("GGUF ids of tokens that there are none of, and of tokens that are not used", "[bad][gguf]") {
  GgufLoads loads;
  const auto check = [&](const GgufFile& file, std::int32_t bos, std::size_t n_end) {
    const Model model = loads.load(file.bytes());
    INFO(loads.error.message);
    REQUIRE(model != nullptr);
    auto info = sized<qinfer_model_info>();
    REQUIRE_OK(qinfer_model_get_info(model.get(), &info, &err));
    CHECK(info.bos_token == bos);
    std::size_t n_ends = 0;
    qinfer_token ends[4];
    REQUIRE_OK(qinfer_model_end_tokens(model.get(), ends, 4, &n_ends, &err));
    CHECK(n_ends == n_end);
    qinfer_token tokens[64];
    std::size_t n = 0;
    const std::string text = "ab <|im_end|> <x>";
    const std::uint32_t flags = QINFER_TEXT_ADD_SPECIAL | QINFER_TEXT_PARSE_SPECIAL;
    const qinfer_status status =
        qinfer_tokenize(model.get(), text.data(), text.size(), flags, tokens, 64, &n, &loads.error);
    if (status != QINFER_OK) return;
    for (std::size_t i = 0; i < n; ++i) REQUIRE((tokens[i] >= 0 && tokens[i] < 9));
  };
  for (const char* name : {"bos", "eos", "eot", "eom", "padding", "unknown"}) {
    INFO(name);
    GgufFile file = tiny_gguf();
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    file.keys.set(key, UINT32_MAX);
    check(file, -1, 1);  // <|im_end|> is known by its name
    file.keys.set_bytes(key, GgufKeys::i32, gguf_number(std::int32_t{-1}));
    check(file, -1, 1);
    file.keys.set_bytes(key, GgufKeys::i32, gguf_number(std::int32_t{-2}));
    REQUIRE_GGUF_FAILS(QINFER_E_FORMAT, key, loads, file.bytes());
  }
  // Tokens at the end that are not defined, one of them said to begin texts.
  GgufFile file = tiny_gguf();
  file.keys.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1, 1, 3, 4, 5, 5});
  file.keys.set("tokenizer.ggml.bos_token_id", 8U);
  file.keys.set("tokenizer.ggml.add_bos_token", true);
  check(file, 8, 1);
  file.keys.set("tokenizer.ggml.model", "llama");
  file.keys.set("tokenizer.ggml.scores", std::vector<float>(9, -1.0f));
  for (const std::uint32_t id : {7u, 8u}) {
    file.keys.set("tokenizer.ggml.unknown_token_id", id);
    check(file, 8, 1);
  }
  // None is defined at all.
  file.keys.set("tokenizer.ggml.token_type", std::vector<std::int32_t>(9, 5));
  check(file, 8, 1);
}
