// Parts of a text that somebody else wrote: no byte of them takes part in a control token, and nothing else changes.
#include <filesystem>

#include "support/c_api.h"
#include "support/checkpoint_writer.h"
#include "support/skip.h"
#include "support/test_data.h"
#include "support/tokenizers.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

namespace fs = std::filesystem;

std::vector<TokenId> encode_parts(const Tokenizer& tokenizer, const std::string& text, const std::vector<Span>& content,
                                  bool plain = false) {
  std::vector<TokenId> ids;
  text::EncodeOptions options;
  options.parse_special = true;
  options.content = content;
  options.plain_content = plain;
  const Status status = tokenizer.encode(text, options, ids);
  if (!status.ok()) FAIL(std::string(status.message()));
  return ids;
}

std::size_t count_control(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  return static_cast<std::size_t>(
      std::count_if(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer.is_control(id); }));
}

/// Contents of a file's control tokens.
std::vector<std::string> control_tokens(const Tokenizer& tokenizer, const Json& file) {
  std::vector<std::string> out;
  for (const Json& token : file["added_tokens"])
    if (tokenizer.is_control(token["id"].get<TokenId>())) out.push_back(token["content"].get<std::string>());
  return out;
}

Json file_of(const std::string& name) {
  return Json::parse(read_text_file(find_test_data(("tokenizers/" + name + "/tokenizer.json").c_str())));
}

/// Whoever writes one message, or two, and whatever of a token the template itself continues.
void check_token_in_content(const Tokenizer& tokenizer, const std::string& token, const std::string& begin,
                            const std::string& end) {
  INFO("token " << token);
  const std::size_t framed = count_control(tokenizer, encode(tokenizer, begin + end));
  const auto check = [&](const std::string& text, const std::vector<Span>& content) {
    CHECK(count_control(tokenizer, encode_parts(tokenizer, text, content)) == framed);
  };
  const std::size_t b = begin.size(), n = token.size();
  check(begin + token + end, {{b, b + n}});
  check(begin + "so " + token + token + " it" + end, {{b, b + 2 * n + 6}});
  for (std::size_t cut = 1; cut < n; ++cut) {
    const std::string first = token.substr(0, cut), rest = token.substr(cut);
    check(begin + token + end, {{b, b + cut}, {b + cut, b + n}});  // two messages, side by side
    check(begin + token + end, {{b, b + cut}});                    // the template goes on with the rest
    check(begin + token + end, {{b + cut, b + n}});                // the template has begun it
    check(begin + first + "\n" + rest + end, {{b, b + cut}, {b + cut + 1, b + n + 1}});
  }
}

}  // namespace

TEST_CASE("Content takes part in no control token", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  const std::vector<TokenId> plain = {small_byte('<'), small_byte('s'), small_byte('>')};
  CHECK(encode_parts(*tokenizer, "<s>", {{0, 3}}) == plain);
  CHECK(encode_parts(*tokenizer, "<s>", {{1, 2}}) == plain);
  CHECK(encode_parts(*tokenizer, "<s>", {}) == std::vector<TokenId>{1});
  CHECK(encode_parts(*tokenizer, "<s><s></s>", {{3, 6}}) ==
        std::vector<TokenId>{1, small_byte('<'), small_byte('s'), small_byte('>'), 2});
  // What content begins, the template's own token may not be lost in.
  CHECK(encode_parts(*tokenizer, "<<s>", {{0, 1}}) == std::vector<TokenId>{small_byte('<'), 1});
  check_token_in_content(*tokenizer, "<s>", "<s>", "</s>");
}

TEST_CASE("A longer token that content takes part in leaves the shorter one before it", "[text]") {
  Json file = small_tokenizer();
  Json longer = file["added_tokens"][1];
  longer["content"] = "<s>a", longer["id"] = 700;
  file["added_tokens"].push_back(longer);
  const auto tokenizer = load_tokenizer_text(file.dump());
  CHECK(encode_parts(*tokenizer, "<s>a", {}) == std::vector<TokenId>{700});
  CHECK(encode_parts(*tokenizer, "<s>a", {{3, 4}}) == std::vector<TokenId>{1, 260});
}

TEST_CASE("Added tokens that are no control tokens match in content unless they may not", "[text]") {
  Json file = small_tokenizer();
  file["added_tokens"][2]["special"] = false;
  const auto tokenizer = load_tokenizer_text(file.dump());
  CHECK(encode_parts(*tokenizer, "</s>", {{0, 4}}) == std::vector<TokenId>{2});
  CHECK(encode_parts(*tokenizer, "</s>", {{0, 4}}, true).size() == 4);
  CHECK(encode_parts(*tokenizer, "</s></s>", {{0, 4}}, true).size() == 5);
}

TEST_CASE("Control tokens of the normalised text are kept from content too", "[text]") {
  for (const Json& normalizer :
       {Json(nullptr), Json{{"type", "NFC"}},
        Json{{"type", "Sequence"},
             {"normalizers",
              {{{"type", "Prepend"}, {"prepend", "\u2581"}},
               {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}}) {
    INFO(normalizer.dump());
    Json file = small_tokenizer();
    file["normalizer"] = normalizer;
    for (Json& token : file["added_tokens"]) token["normalized"] = true;
    const auto tokenizer = load_tokenizer_text(file.dump());
    const auto tokens = [&](const std::string& text, const std::vector<Span>& content) {
      return count_control(*tokenizer, encode_parts(*tokenizer, text, content));
    };
    const std::size_t own = tokens("a<s>b", {});
    CHECK(tokens("a<s>b", {{0, 1}, {4, 5}}) == own);
    CHECK(tokens("a<s>b", {{1, 4}}) == 0);
    CHECK(tokens("a<s>b", {{1, 2}}) == 0);
    CHECK(tokens("a<s>b<s>", {{1, 4}}) == own);
    // Without a token in sight, parts change nothing but where the parts of a normalised text meet.
    CHECK(encode_parts(*tokenizer, "ab a b", {{3, 4}}) == encode(*tokenizer, "ab a b"));
  }
}

TEST_CASE("No control token comes out of content with any tokenizer of the data", "[text][data]") {
  for (const std::string name : {"gpt2", "mistral", "qwen3"})
    SKIP_UNLESS_TEST_DATA(("tokenizers/" + name + "/tokenizer.json").c_str());
  for (const std::string name : {"gpt2", "mistral", "qwen3"}) {
    INFO(name);
    const Json file = file_of(name);
    const auto tokenizer = load_tokenizer_text(file.dump());
    const std::vector<std::string> tokens = control_tokens(*tokenizer, file);
    REQUIRE(!tokens.empty());
    for (const std::string& token : tokens) check_token_in_content(*tokenizer, token, tokens.front(), tokens.back());
  }
}

TEST_CASE("Where content holds no added token its parts change nothing", "[text][data]") {
  const std::string first = "Grüße, 你好! \t\n\n  x = 3;  e\u0301 ";
  for (const std::string name : {"gpt2", "mistral", "qwen3"})
    SKIP_UNLESS_TEST_DATA(("tokenizers/" + name + "/tokenizer.json").c_str());
  for (const std::string name : {"gpt2", "mistral", "qwen3"}) {
    INFO(name);
    const Json file = file_of(name);
    const auto tokenizer = load_tokenizer_text(file.dump());
    const std::vector<std::string> tokens = control_tokens(*tokenizer, file);
    std::string text;
    std::vector<Span> parts;
    for (int i = 0; i < 20; ++i) {
      text += tokens[static_cast<std::size_t>(i) % tokens.size()] + "user\n";
      parts.push_back({text.size(), text.size() + first.size()});
      text += first;
    }
    CHECK(encode_parts(*tokenizer, text, parts) == encode(*tokenizer, text));
  }
}

TEST_CASE("Parts of content that are none of the text are refused", "[text]") {
  const ModelDir dir{TinySpec()};
  auto load = sized<qinfer_load_options>();
  load.flags = QINFER_LOAD_NO_WEIGHTS;
  const Runtime runtime = make_runtime();
  const Model model = load_model(runtime, dir.path(), &load);
  const std::string text = "<s>the</s>";
  const auto count = [&](std::vector<qinfer_text_part> parts, const char* message) {
    auto options = sized<qinfer_tokenize_options>();
    options.flags = QINFER_TEXT_PARSE_SPECIAL;
    options.content = parts.data();
    options.n_content = parts.size();
    qinfer_token tokens[16];
    size_t n = 0;
    qinfer_error err = {};
    const qinfer_status status =
        qinfer_tokenize_with(model.get(), text.data(), text.size(), &options, tokens, 16, &n, &err);
    CHECK(status == (message == nullptr ? QINFER_OK : QINFER_E_INVALID_ARGUMENT));
    if (message != nullptr) CHECK(std::string(err.message).find(message) != std::string::npos);
    return n;
  };
  CHECK(count({}, nullptr) == 3);
  CHECK(count({{0, 3}}, nullptr) == 5);
  CHECK(count({{0, 3}, {3, 3}, {6, 10}}, nullptr) == 8);
  CHECK(count({{3, 2}}, "content[0] is [3, 2)") == 0);
  CHECK(count({{0, 11}}, "expected a part of the text's 10 bytes") == 0);
  CHECK(count({{0, 4}, {3, 5}}, "begins at 4 or later") == 0);
  CHECK(count({{0, UINT64_MAX}}, "content[0]") == 0);
}

TEST_CASE("Content is made of whole characters, and may hold what no token stands for", "[text]") {
  for (const bool normalized : {false, true}) {
    Json file = small_tokenizer();
    file["normalizer"] = {{"type", "NFC"}};
    for (Json& token : file["added_tokens"]) token["normalized"] = normalized;
    const auto tokenizer = load_tokenizer_text(file.dump());
    const std::string text =
        "a\xF0\x9F\x98\x80"
        "b";
    std::vector<TokenId> ids;
    text::EncodeOptions options;
    for (std::size_t begin = 0; begin <= text.size(); ++begin)
      for (std::size_t end = begin; end <= text.size(); ++end) {
        const Span part{begin, end};
        options.content = {&part, 1};
        const bool whole = (begin < 2 || begin > 4) && (end < 2 || end > 4);
        INFO(begin << " to " << end);
        const Status status = tokenizer->encode(text, options, ids);
        CHECK(status.ok() == whole);
        if (!whole) CHECK(status.code() == Code::invalid_argument);
      }
  }
  // An unknown token that is marked special is what text becomes that no other token stands for.
  Json file = small_tokenizer();
  file["model"]["byte_fallback"] = false;
  file["model"]["unk_token"] = "<unk>";
  const auto tokenizer = load_tokenizer_text(file.dump());
  CHECK(encode_parts(*tokenizer, "ab\u00e9", {{0, 4}}) == encode(*tokenizer, "ab\u00e9"));
}
