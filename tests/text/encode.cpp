// What the encoder does that no golden file shows: errors of the caller, options, and use from many threads.
#include <thread>

#include "support/tokenizers.h"

using namespace qinfer;
using namespace qinfer::test;

TEST_CASE("text that is not UTF-8 is refused with the offset", "[text]") {
  struct Bad {
    std::string text;
    std::int64_t offset;
  };
  const Bad bad = GENERATE(values<Bad>({
      {"\x80", 0},                // a continuation byte alone
      {"ab\xC0\x80", 2},          // overlong NUL
      {"ab\xC1\xBF", 2},          // overlong, two bytes
      {"ab\xE0\x9F\xBF", 2},      // overlong, three bytes
      {"ab\xF0\x8F\xBF\xBF", 2},  // overlong, four bytes
      {"a\xED\xA0\x80", 1},       // the surrogate U+D800
      {"a\xED\xBF\xBF", 1},       // the surrogate U+DFFF
      {"a\xF4\x90\x80\x80", 1},   // U+110000
      {"a\xF5\x80\x80\x80", 1},   // beyond any code point
      {"a\xFF", 1},
      {"abcdefgh\xE4\xBD", 8},  // cut off after two of three bytes
      {"abcdefghabcdefg\xF0\x9F\x99", 15},
      {"\xC3"
       "a",
       0},  // cut off by another character
      {"\xE4\xBD\xA0\xE4"
       "a\xBD",
       3},
  }));
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  std::vector<TokenId> ids = {7};
  const Status status = tokenizer->encode(bad.text, {}, ids);
  CAPTURE(bad.offset);
  REQUIRE(status.code() == Code::invalid_argument);
  REQUIRE(status.detail() == bad.offset);
  REQUIRE(std::string(status.message()).find("byte " + std::to_string(bad.offset)) != std::string::npos);
  REQUIRE(ids == std::vector<TokenId>{7});
}

TEST_CASE("the first and last code points of each length are valid", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  const std::string text(
      "\x00\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", 26);
  const auto ids = encode(*tokenizer, text);
  REQUIRE(ids.size() == text.size());  // by byte fallback
  REQUIRE(decode(*tokenizer, ids) == text);
}

TEST_CASE("encode appends, and control tokens are found only when asked for", "[text]") {
  auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  std::vector<TokenId> ids = {99};
  REQUIRE(tokenizer->encode("ab<s>", {.parse_special = true}, ids).ok());
  REQUIRE(ids == std::vector<TokenId>{99, 262, 1});
  REQUIRE(encode(*tokenizer, "<s>", false) == std::vector<TokenId>{small_byte('<'), small_byte('s'), small_byte('>')});
  REQUIRE(encode(*tokenizer, "").empty());

  Json file = small_tokenizer();
  file["added_tokens"][2]["special"] = false;
  tokenizer = load_tokenizer_text(file.dump());
  REQUIRE_FALSE(tokenizer->is_control(2));
  REQUIRE(encode(*tokenizer, "</s>", false) == std::vector<TokenId>{2});
  tokenizer->mark_control(2);
  REQUIRE(tokenizer->is_control(2));
  REQUIRE(encode(*tokenizer, "</s>", false).size() == 4);
  REQUIRE(encode(*tokenizer, "</s>", true) == std::vector<TokenId>{2});
  tokenizer->mark_control(100'000);  // no such token: nothing happens
  tokenizer->mark_control(-1);
}

TEST_CASE("added tokens that the model has no rows for are plain text, and a note says so", "[text]") {
  const bool special = GENERATE(true, false);
  const std::int64_t id = GENERATE(as<std::int64_t>(), 270, 300, 100'000'000, INT64_MAX);
  Json json = small_tokenizer();
  Json image = json["added_tokens"][0];
  image["id"] = id;
  image["content"] = "<image>";
  image["special"] = special;
  json["added_tokens"].push_back(image);
  Notes notes;
  auto fewer = Tokenizer::from_json(json.dump(), "tokenizer.json", {270, &notes});
  REQUIRE(fewer.ok());
  CHECK(encode(*fewer.value(), "<image>") == encode(*load_tokenizer_text(small_tokenizer().dump()), "<image>"));
  const std::vector<std::string> lines = notes.take();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("added_tokens[3]: the token \"<image>\" has the id " + std::to_string(id)) == 0);
  if (id == 300) CHECK(encode(*load_tokenizer_text(json.dump()), "<image>") == std::vector<TokenId>{300});
}

TEST_CASE("an added token that is there already keeps its id, as in Hugging Face's library", "[text]") {
  Json json = small_tokenizer();
  Json again = json["added_tokens"][1];  // <s>, 1
  again["id"] = 290;
  json["added_tokens"].push_back(again);
  json["added_tokens"].push_back(json["added_tokens"][1]);
  Json word = again;
  word["content"] = "ab";  // a token of the model
  word["special"] = false;
  json["added_tokens"].push_back(word);
  Notes notes;
  auto loaded = Tokenizer::from_json(json.dump(), "tokenizer.json", {0, &notes});
  REQUIRE(loaded.ok());
  const Tokenizer& tokenizer = *loaded.value();
  CHECK(encode(tokenizer, "<s>") == std::vector<TokenId>{1});
  CHECK(tokenizer.size() == load_tokenizer_text(small_tokenizer().dump())->size());
  CHECK(tokenizer.token_bytes(290).empty());
  CHECK(tokenizer.find("ab") == 262);
  CHECK(encode(tokenizer, "ab") == std::vector<TokenId>{262});  // no space before an added token
  CHECK(notes.take().size() == 2);
}

TEST_CASE("what is known of single tokens", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  REQUIRE(tokenizer->size() == 265);
  REQUIRE(tokenizer->max_token_bytes() == 5);
  REQUIRE(tokenizer->token_bytes(262) == "ab");
  REQUIRE(tokenizer->token_bytes(264) == " a");
  REQUIRE(tokenizer->token_bytes(small_byte(0xE4)) == "\xE4");
  REQUIRE(tokenizer->token_bytes(1) == "<s>");
  REQUIRE(tokenizer->token_bytes(3).empty());  // an id that the file leaves out
  REQUIRE(tokenizer->token_bytes(265).empty());
  REQUIRE(tokenizer->token_bytes(-1).empty());
  REQUIRE(tokenizer->is_byte(small_byte('a')));
  REQUIRE_FALSE(tokenizer->is_byte(260));
  REQUIRE(tokenizer->is_control(0));
  REQUIRE_FALSE(tokenizer->is_control(-1));
  REQUIRE(tokenizer->find("\u2581a") == TokenId{264});
  REQUIRE_FALSE(tokenizer->find(" a").has_value());
}

TEST_CASE("a long word merges like a short one", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  std::string text;
  std::vector<TokenId> ids;
  for (int i = 0; i < 1000; ++i) {
    text += " abb";
    ids.insert(ids.end(), {264, 261, 261});  // " a" first: its merge has the higher rank only after "ab"
  }
  const auto got = encode(*tokenizer, text);
  std::vector<TokenId> by_piece;
  for (int i = 0; i < 1000; ++i)
    for (const TokenId id : encode(*tokenizer, " abb")) by_piece.push_back(id);
  REQUIRE(got == by_piece);
}

TEST_CASE("a pattern that backtracks without end is an error, not a hang", "[text]") {
  Json file = small_tokenizer();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a+a+)+[b\\d]"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const auto tokenizer = load_tokenizer_text(file.dump());
  std::vector<TokenId> ids;
  REQUIRE(tokenizer->encode("aaaaab", {}, ids).ok());
  const Status status = tokenizer->encode(std::string(200, 'a'), {}, ids);
  REQUIRE(status.code() == Code::unsupported);
  REQUIRE(std::string(status.message()).find("steps") != std::string::npos);
}

TEST_CASE("one tokenizer serves many threads", "[text][threads]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i)
    texts.push_back(std::string(static_cast<std::size_t>(i), 'a') + " ab<s>\u4f60 " + std::to_string(i));
  std::vector<std::vector<TokenId>> expected;
  for (const std::string& text : texts) expected.push_back(encode(*tokenizer, text));

  std::vector<int> wrong(4, 0);  // Catch2 2 asserts on one thread only
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < texts.size(); ++i) {
          std::vector<TokenId> ids;
          const std::size_t k = (i + t * 13) % texts.size();
          if (!tokenizer->encode(texts[k], {.parse_special = true}, ids).ok() || ids != expected[k]) ++wrong[t];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(wrong == std::vector<int>(4, 0));
}
