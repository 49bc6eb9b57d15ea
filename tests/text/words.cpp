// Words that are tokens, and marks inside of words, beyond what fixtures show: what a file says wrongly, and texts that
// are made to take long.
#include "support/tokenizers.h"
#include "text/library_scripts.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

Json word_level() {
  Json file;
  file["model"] = {{"type", "WordLevel"}, {"vocab", {{"a", 0}, {"b", 1}, {"<unk>", 2}}}, {"unk_token", "<unk>"}};
  file["pre_tokenizer"] = {{"type", "FixedLength"}, {"length", 1}};
  return file;
}

/// "ab", "a##b" as BPE has it with a mark.
Json marked() {
  Json file;
  file["model"] = {{"type", "BPE"},
                   {"vocab", {{"a", 0}, {"##b", 1}, {"ab", 2}, {"<unk>", 3}}},
                   {"merges", {"a ##b"}},
                   {"unk_token", "<unk>"},
                   {"continuing_subword_prefix", "##"}};
  return file;
}

Json at(Json file, const std::string& pointer, const Json& value) {
  file[Json::json_pointer(pointer)] = value;
  return file;
}

Json without(Json file, const std::string& object, const std::string& key) {
  file[Json::json_pointer(object)].erase(key);
  return file;
}

void require_refused(const Json& file, Code code, const std::string& named) {
  auto loaded = Tokenizer::from_json(file.dump(), "dir/tokenizer.json", {});
  INFO("expected an error about " << named);
  REQUIRE_FALSE(loaded.ok());
  const Status status = loaded.take_status();
  CAPTURE(std::string(status.message()));
  CHECK(status.code() == code);
  CHECK(status.message().find("dir/tokenizer.json") != std::string_view::npos);
  CHECK(status.message().find(named) != std::string_view::npos);
}

std::vector<TokenId> ids_of(const Json& file, std::string_view text) {
  return encode(*load_tokenizer_text(file.dump()), text);
}

}  // namespace

TEST_CASE("fields of WordLevel that are missing or wrong are named", "[text][bad]") {
  REQUIRE(ids_of(word_level(), "abc") == std::vector<TokenId>{0, 1, 2});
  require_refused(without(word_level(), "/model", "vocab"), Code::format, "vocab");
  require_refused(without(word_level(), "/model", "unk_token"), Code::format, "unk_token");
  require_refused(at(word_level(), "/model/unk_token", nullptr), Code::format, "unk_token");
  require_refused(at(word_level(), "/model/unk_token", 3), Code::format, "unk_token");
  require_refused(at(word_level(), "/model/vocab", Json::array()), Code::format, "model.vocab is an array");
  require_refused(at(word_level(), "/model/vocab/a", "x"), Code::format, "model.vocab");
  require_refused(at(word_level(), "/model/merges", Json::array()), Code::unsupported, "merges");
  require_refused(at(word_level(), "/model/byte_fallback", false), Code::unsupported, "byte_fallback");
  require_refused(at(word_level(), "/model/type", "Other"), Code::unsupported, "Other");
}

TEST_CASE("a word without a token is an error where no token stands for unknown ones", "[text]") {
  const auto tokenizer = load_tokenizer_text(at(word_level(), "/model/unk_token", "nowhere").dump());
  CHECK(encode(*tokenizer, "ab") == std::vector<TokenId>{0, 1});
  std::vector<TokenId> ids = {7};
  const Status status = tokenizer->encode("abc", {}, ids);
  CHECK(status.code() == Code::unsupported);
  CHECK(status.message().find("no token for a word") != std::string_view::npos);
  CHECK(ids == std::vector<TokenId>{7});
}

TEST_CASE("fields of pre-tokenizers by script and by length that are wrong are named", "[text][bad]") {
  for (const Json& length : {Json(0), Json(-1), Json("3"), Json(1.5), Json::array()})
    require_refused(at(word_level(), "/pre_tokenizer/length", length), Code::format, "length");
  require_refused(at(word_level(), "/pre_tokenizer/size", 3), Code::unsupported, "size");
  require_refused(at(word_level(), "/pre_tokenizer", {{"type", "UnicodeScripts"}, {"length", 3}}), Code::unsupported,
                  "length");
  require_refused(at(word_level(), "/normalizer", {{"type", "ByteLevel"}, {"use_regex", true}}), Code::unsupported,
                  "use_regex");
  CHECK(ids_of(at(word_level(), "/pre_tokenizer/length", INT64_MAX), "aba") == std::vector<TokenId>{2});
  CHECK(ids_of(at(word_level(), "/pre_tokenizer", {{"type", "FixedLength"}}), "aaaaaa") == std::vector<TokenId>{2, 0});
}

TEST_CASE("characters of no script go on with what is before them, and first ones are left out", "[text]") {
  CHECK(text::library_script(U'a') == text::library_script(U'z'));
  CHECK(text::library_script(U' ') == text::kAnyScript);
  CHECK(text::library_script(0x30FC) == text::library_script(0x4E00));
  CHECK(text::library_script(0x10FFFF) == text::kAnyScript);
  const Json file = at(word_level(), "/pre_tokenizer", {{"type", "UnicodeScripts"}});
  CHECK(ids_of(file, "  a") == std::vector<TokenId>{0});
  CHECK(ids_of(file, "a ") == std::vector<TokenId>{2});
  CHECK(ids_of(file, "   ").empty());
}

TEST_CASE("what marks the inside of words is checked", "[text][bad]") {
  REQUIRE(ids_of(marked(), "ab") == std::vector<TokenId>{2});
  REQUIRE(ids_of(marked(), "aab") == std::vector<TokenId>{0, 3, 1});
  const char* name = "/model/continuing_subword_prefix";
  require_refused(at(marked(), name, 1), Code::format, "continuing_subword_prefix");
  require_refused(at(marked(), name, "\u00e9"), Code::unsupported, "supported is ASCII");
  require_refused(at(marked(), name, "@@"), Code::format, "does not begin with");
  require_refused(at(marked(), name, std::string(257, '#')), Code::unsupported, "257 bytes");
  require_refused(at(marked(), "/model/merges", {"a ##"}), Code::format, "##");
}

TEST_CASE("long words with long marks end in bounded time", "[text]") {
  Json file = at(marked(), "/model/continuing_subword_prefix", std::string(256, '#'));
  file["model"]["merges"] = Json::array();
  const auto tokenizer = load_tokenizer_text(file.dump());
  for (const std::size_t size : {1000u, 100'000u, 1'000'000u}) {
    std::vector<TokenId> ids;
    const Status status = tokenizer->encode(std::string(size, 'a'), {}, ids);
    CHECK((status.ok() || status.code() == Code::unsupported));
    if (status.ok()) CHECK(ids.size() == size);
  }
  // Marks that make each character some 500 steps, of which a text has that many for each byte.
  std::vector<TokenId> ids;
  CHECK(tokenizer->encode(std::string(100'000, 'a'), {.max_work = 100'000}, ids).code() == Code::unsupported);
  CHECK(ids.empty());
}
