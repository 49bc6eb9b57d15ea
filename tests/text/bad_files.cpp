// tokenizer.json files that are damaged, hostile or beyond what is implemented: each must give an error that names the
// file and what is at fault.
#include "support/tokenizers.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

void require_refused(std::string_view json, Code code, const std::string& named, std::uint32_t vocab_size = 0) {
  auto loaded = Tokenizer::from_json(json, "dir/tokenizer.json", {vocab_size});
  INFO("expected an error about " << named);
  REQUIRE_FALSE(loaded.ok());
  const Status status = loaded.take_status();
  const std::string message(status.message());
  CAPTURE(message);
  REQUIRE(status.code() == code);
  REQUIRE(message.find("dir/tokenizer.json") != std::string::npos);
  REQUIRE(message.find(named) != std::string::npos);
}

/// The small tokenizer with the field at `pointer` ("/model/type") replaced.
std::string with(const std::string& pointer, const Json& value) {
  Json file = small_tokenizer();
  file[Json::json_pointer(pointer)] = value;
  return file.dump();
}

std::string without(const std::string& object, const std::string& key) {
  Json file = small_tokenizer();
  file[Json::json_pointer(object)].erase(key);
  return file.dump();
}

Json split(const std::string& regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

}  // namespace

TEST_CASE("kinds that are not implemented are named", "[text][bad]") {
  const auto kind = [](const char* type) { return Json{{"type", type}}; };
  const auto refuse = [](const std::string& json, const std::string& named) {
    require_refused(json, Code::unsupported, named);
  };
  refuse(with("/model/type", "Other"), "Other");
  refuse(with("/normalizer", kind("Other")), "Other");
  refuse(with("/pre_tokenizer", kind("Other")), "Other");
  refuse(with("/post_processor", kind("Other")), "Other");
  refuse(with("/decoder", kind("CTC")), "CTC");
  refuse(with("/normalizer", {{"type", "Sequence"}, {"normalizers", {kind("NFC"), kind("Other")}}}), "Other");
  refuse(with("/version", "2.0"), "2.0");
  refuse(with("/chat_template", "x"), "chat_template");
  refuse(with("/model/dropout", 0.1), "dropout");
  refuse(with("/model/continuing_subword_prefix", std::string(257, 'x')),
         "\"continuing_subword_prefix\" has 257 bytes");
  refuse(with("/model/end_of_word_suffix", std::string(257, 'x')), "\"end_of_word_suffix\" has 257 bytes");
  const auto word_end = [](const std::string& suffix) { return Json{{"type", "BPEDecoder"}, {"suffix", suffix}}; };
  refuse(with("/decoder", word_end("")), "\"suffix\" of BPEDecoder has 0 bytes");
  refuse(with("/decoder", word_end(std::string(257, 'x'))), "\"suffix\" of BPEDecoder has 257 bytes");
  refuse(with("/decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, word_end("</w>")}}}), "BPEDecoder");
  // Only a token's end is known to be one before the next token comes.
  require_refused(with("/decoder", word_end("<0x")), Code::format, "\"<0x\" is inside the token");
  refuse(with("/model/max_input_chars_per_word", 1), "max_input_chars_per_word");
  refuse(with("/normalizer/new_option", 1), "new_option");
  refuse(with("/decoder/decoders/3/stop", 1), "Strip");
}

TEST_CASE("patterns that cannot mean the same here are named", "[text][bad]") {
  const std::string pattern =
      GENERATE(as<std::string>(), "[a[b]]", "[a-z&&[^b]]", "[[:alpha:]]", "\\h", "\\R", "(?m:.)", "(?<n>a)", "\\k<n>",
               "(a)\\1", "\\pL", "\\p{Alphabetic}", "\\xE4", "\\x{110000}", "[", "[]", "(", ")", "a**b[", "(?i:ss)",
               "[\\W]", "\\", "[\\", "\\Q", "*");
  require_refused(with("/pre_tokenizer", split(pattern)), Code::unsupported, "pre_tokenizer: the regular expression");
}

TEST_CASE("a token's id must be in range and its own", "[text][bad]") {
  const auto refuse = [](const std::string& json, const std::string& named, std::uint32_t vocab_size = 0) {
    require_refused(json, Code::format, named, vocab_size);
  };
  refuse(with("/model/vocab/a", -1), "\"a\" has the id -1");
  refuse(with("/model/vocab/a", 300), "\"a\" has the id 300, expected 0 to 269", 270);
  refuse(with("/model/vocab/a", 2147483648), "\"a\" has the id 2147483648");
  refuse(with("/model/vocab/a", INT64_MAX), "9223372036854775807");
  refuse(with("/model/vocab/a", UINT64_MAX), "18446744073709551615");
  refuse(with("/model/vocab/a", 1.5), "\"a\" has the id 1.5");
  refuse(with("/model/vocab/a", nullptr), "\"a\"");
  refuse(with("/model/vocab/a", "260"), "\"a\"");
  refuse(with("/model/vocab/a", Json::array()), "\"a\"");
  refuse(with("/model/vocab/b", 260), "the id 260 is given to two tokens");
  refuse(R"({"model":{"vocab":{"a":0,"a":1},"merges":[]}})", "the token \"a\" has two ids, 0 and 1");
  refuse(with("/added_tokens/1/content", "new"), "the id 1 is given to two tokens");
  refuse(with("/added_tokens/1/id", -5), "the id -5");
  refuse(with("/added_tokens/1/id", "1"), "added_tokens[1]");
  refuse(with("/added_tokens/1/content", ""), "added_tokens[1]");
  refuse(with("/added_tokens/1/special", 1), "special");
  refuse(without("/added_tokens/1", "lstrip"), "lstrip");
}

TEST_CASE("merges must join tokens that exist", "[text][bad]") {
  const auto refuse = [](const std::string& json, const std::string& named) {
    require_refused(json, Code::format, named);
  };
  refuse(with("/model/merges/0", "a x"), "needs the token \"x\"");
  refuse(with("/model/merges/0", "b a"), "needs the token \"ba\"");
  refuse(with("/model/merges/0", "ab"), "\"ab\"");
  refuse(with("/model/merges/0", "a b c"), "\"a b c\"");
  refuse(with("/model/merges/0", 5), "merge 0");
  refuse(with("/model/merges/0", nullptr), "merge 0");
  refuse(with("/model/merges/0", {"a", "b"}), "merge");  // the other merge is a string
  refuse(with("/model/merges", Json::array({Json::array({"a"})})), "1 parts");
  refuse(with("/model/merges", Json::array({Json::array({"a", "b", "ab"})})), "3 parts");
  refuse(with("/model/merges", Json::array({Json::array({"a", 1})})), "merge 0");
}

TEST_CASE("fields of the wrong type or missing are named", "[text][bad]") {
  const auto refuse = [](const std::string& json, const std::string& named) {
    require_refused(json, Code::format, named);
  };
  refuse(without("", "model"), "model");
  refuse(without("/model", "vocab"), "vocab");
  refuse(without("/model", "merges"), "merges");
  refuse(with("/model", 1), "model");
  refuse(with("/model/vocab", Json::array()), "model.vocab is an array");
  refuse(with("/model/vocab", "x"), "model.vocab is a string");
  refuse(with("/model/vocab", nullptr), "model.vocab");
  refuse(with("/model/merges", Json::object()), "model.merges is an object");
  refuse(with("/model/merges", 7), "model.merges is a number");
  refuse(with("/model/unk_token", "nowhere"), "nowhere");
  refuse(with("/model/fuse_unk", "yes"), "fuse_unk");
  refuse(with("/added_tokens", 3), "added_tokens");
  refuse(with("/added_tokens/0", 3), "added_tokens[0]");
  refuse(with("/normalizer", "NFC"), "normalizer");
  refuse(with("/normalizer", Json::object()), "type");
  refuse(with("/normalizer/pattern", "x"), "pattern");
  refuse(with("/normalizer/content", nullptr), "content");
  refuse(with("/decoder/decoders", nullptr), "decoders");
  refuse(with("/decoder/decoders/3/content", "ab"), "content");
  refuse(with("/decoder/decoders/3/start", -1), "start");
  const Json special = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
             text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto post = [&](const Json& single, const Json& ids) {
    return with("/post_processor", {{"type", "TemplateProcessing"},
                                    {"single", single},
                                    {"pair", Json::array()},
                                    {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", ids}, {"tokens", {"<s>"}}}}}}});
  };
  REQUIRE(Tokenizer::from_json(post({special, text}, {1}), "t", {}).ok());
  refuse(post({special, text}, {3}), "\"<s>\" has the id 3");
  refuse(post({special, text}, {-1}), "-1");
  refuse(post({special}, {1}), "single");
  refuse(post({text, text}, {1}), "single");
  refuse(post({text, Json::object()}, {1}), "single");
  refuse(with("/post_processor", {{"type", "TemplateProcessing"}, {"single", {special, text}}}), "special_tokens");
}

TEST_CASE("files cut anywhere, or not JSON, are refused", "[text][bad]") {
  const std::string good = small_tokenizer().dump();
  REQUIRE(Tokenizer::from_json(good, "t", {}).ok());
  for (std::size_t size = 0; size < good.size(); size += 1 + size / 50)
    require_refused(good.substr(0, size), Code::format, "tokenizer.json");
  require_refused("[]", Code::format, "object");
  require_refused("\"x\"", Code::format, "object");
  require_refused(good + "x", Code::format, "tokenizer.json");
  require_refused(std::string(1, '\0') + good, Code::format, "tokenizer.json");
  require_refused("{\"version\":\"\xFF\"}", Code::format, "tokenizer.json");
  require_refused(R"({"model":{"vocab":{"\ud800":0},"merges":[]}})", Code::format, "tokenizer.json");
  require_refused(R"({"model":{"vocab":{},"vocab":{},"merges":[]}})", Code::format, "model.vocab appears twice");
  require_refused(R"({"normalizer":null,"normalizer":null})", Code::format, "normalizer");
  std::string deep = "{\"normalizer\":";
  for (int i = 0; i < 10'000; ++i) deep += R"({"type":"Sequence","normalizers":[)";
  require_refused(deep, Code::format, "nested deeper");
}

TEST_CASE("odd but harmless files load", "[text][bad]") {
  // NUL in a token, tokens that only look like bytes, an empty vocabulary.
  Json file = small_tokenizer();
  file["model"]["vocab"][std::string("a\0b", 3)] = 265;
  file["model"]["vocab"]["<0x-1>"] = 266;
  file["model"]["vocab"]["<0xGG>"] = 267;
  file["model"]["vocab"][""] = 268;
  const auto tokenizer = load_tokenizer_text(file.dump());
  REQUIRE(tokenizer->token_bytes(265) == std::string_view("a\0b", 3));
  REQUIRE(tokenizer->token_bytes(266) == "<0x-1>");
  REQUIRE_FALSE(tokenizer->is_byte(266));
  REQUIRE_FALSE(tokenizer->is_byte(267));
  REQUIRE(tokenizer->find("") == TokenId{268});

  const auto empty = load_tokenizer_text(R"({"model":{"vocab":{},"merges":[]}})");
  REQUIRE(empty->size() == 0);
  REQUIRE(encode(*empty, "anything").empty());
}

TEST_CASE("a file cannot ask for unbounded memory", "[text][bad]") {
  const std::string big(40'000, 'x');
  Json file = small_tokenizer();
  file["decoder"]["decoders"][0]["content"] = big;
  file["model"]["vocab"]["\u2581\u2581"] = 265;  // decodes to 80,000 bytes
  require_refused(file.dump(), Code::format, "decoder: token 265");
  file = small_tokenizer();
  file["model"]["vocab"][std::string(70'000, 'y')] = 265;
  require_refused(file.dump(), Code::format, "id 265");
  file = small_tokenizer();
  file["added_tokens"][1]["content"] = std::string(5'000, 'y');
  file["added_tokens"][1]["id"] = 280;
  require_refused(file.dump(), Code::unsupported, "added_tokens[1]");
  require_refused(with("/model/vocab/a", 100'000'000), Code::format, "expected 0 to 4194303");
}
