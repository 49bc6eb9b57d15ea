// Tokenizers of encoders beyond what fixtures show: pairs and types, what a file says wrongly, and texts and files that
// are made to take long.
#include <chrono>
#include <new>

#include "support/tokenizers.h"
#include "text/charsmap.h"
#include "text/clusters.h"

using namespace qinfer;
using namespace qinfer::test;
using text::TypeId;

namespace {

std::string fixture(const std::string& name) {
  return read_text_file(std::filesystem::path(QINFER_TEST_FIXTURES) / "tokenizers" / (name + ".json"));
}

Json word_piece() { return Json::parse(fixture("word_piece")); }

/// "a", "b", "ab" and U+2581 with scores; token 0 is the unknown one.
Json unigram() {
  Json file;
  Json vocab = Json::array();
  for (const auto& [token, score] : std::initializer_list<std::pair<const char*, double>>{
           {"<unk>", 0}, {"a", -1}, {"b", -1.5}, {"ab", -2}, {"\u2581", -3}})
    vocab.push_back(Json::array({token, score}));
  file["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}};
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

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

/// A charsmap of these units and replacements.
std::string charsmap(const std::vector<std::uint32_t>& units, std::string_view replacements) {
  std::string bytes;
  const auto put = [&](std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(value >> shift));
  };
  put(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t unit : units) put(unit);
  return bytes + std::string(replacements);
}

constexpr std::uint32_t kHasValue = 1U << 8, kIsValue = 1U << 31;

/// Replaces "a" by "xy": the root leads to unit 97 by the distance 0, and that to unit 98 with the value.
std::vector<std::uint32_t> small_units() {
  std::vector<std::uint32_t> units(256);
  units[97] = 'a' | kHasValue | (97U ^ 98U) << 10;
  units[98] = kIsValue | 1;
  return units;
}

Json with_charsmap(const std::string& bytes) {
  return at(unigram(), "/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", base64(bytes)}});
}

}  // namespace

TEST_CASE("types tell one text from two", "[text]") {
  const auto tokenizer = load_tokenizer_text(fixture("word_piece"));
  std::vector<TokenId> ids = {7};
  std::vector<TypeId> types = {9};
  REQUIRE(tokenizer->encode("the", {.add_special = true}, ids, types).ok());
  CHECK(ids.size() == 4);
  CHECK(types == std::vector<TypeId>{9, 0, 0, 0});
  ids.clear();
  types.clear();
  REQUIRE(tokenizer->encode_pair("the", "word", {.add_special = true}, ids, types).ok());
  CHECK(ids.front() == 2);
  CHECK(std::count(ids.begin(), ids.end(), 3) == 2);
  CHECK(types.size() == ids.size());
  CHECK(types.front() == 0);
  CHECK(types.back() == 1);
  ids.clear();
  types.clear();
  REQUIRE(tokenizer->encode_pair("the", "word", {}, ids, types).ok());
  CHECK(std::count(ids.begin(), ids.end(), 3) == 0);
  CHECK(std::count(types.begin(), types.end(), 1) > 0);
}

TEST_CASE("an error in one of two texts says which, and leaves nothing behind", "[text]") {
  const auto tokenizer = load_tokenizer_text(fixture("word_piece"));
  std::vector<TokenId> ids = {7};
  std::vector<TypeId> types = {9};
  const Status status = tokenizer->encode_pair("the", "a\xFF", {.add_special = true}, ids, types);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("the second text") == 0);
  CHECK(status.detail() == 1);
  CHECK(ids == std::vector<TokenId>{7});
  CHECK(types == std::vector<TypeId>{9});
  const Span content{0, 1};
  CHECK(tokenizer->encode_pair("a", "b", {.content = {&content, 1}}, ids, types).code() == Code::invalid_argument);
}

TEST_CASE("a template without both texts is none for pairs", "[text]") {
  Json file = word_piece();
  file["post_processor"]["pair"] = Json::array();
  const auto tokenizer = load_tokenizer_text(file.dump());
  std::vector<TokenId> ids;
  std::vector<TypeId> types;
  CHECK(tokenizer->encode_pair("a", "b", {}, ids, types).code() == Code::unsupported);
  CHECK(tokenizer->encode("a", {.add_special = true}, ids, types).ok());
}

TEST_CASE("the length at which a file cuts texts is known, and no text is cut", "[text]") {
  const auto tokenizer = load_tokenizer_text(fixture("word_piece"));
  CHECK(tokenizer->max_length() == 128);
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the ";
  CHECK(encode(*tokenizer, text).size() == 200);
  CHECK(load_tokenizer_text(fixture("llama2"))->max_length() == 0);
}

TEST_CASE("all tables of an encoder's tokenizer go to the host's memory, and are counted", "[text]") {
  struct Host {
    std::uint64_t live = 0;
    static void* alloc(std::size_t bytes, std::size_t alignment, void* user) {
      static_cast<Host*>(user)->live += bytes;
      return ::operator new(bytes, std::align_val_t(alignment));
    }
    static void release(void* memory, std::size_t bytes, std::size_t alignment, void* user) {
      static_cast<Host*>(user)->live -= bytes;
      ::operator delete(memory, std::align_val_t(alignment));
    }
  } host;
  for (const char* name : {"word_piece", "unigram"}) {
    auto tokenizer = load_tokenizer_text(fixture(name));
    const auto before = encode(*tokenizer, "the \uff21 word");
    const std::uint64_t bytes = tokenizer->memory_bytes();
    platform::Allocator allocator;
    allocator.alloc = Host::alloc;
    allocator.release = Host::release;
    allocator.user = &host;
    REQUIRE(tokenizer->move_to(allocator).ok());
    CHECK(host.live == bytes);
    CHECK(tokenizer->memory_bytes() == bytes);
    CHECK(encode(*tokenizer, "the \uff21 word") == before);
    tokenizer.reset();
    CHECK(host.live == 0);
  }
}

TEST_CASE("fields of WordPiece that are missing or wrong are named", "[text][bad]") {
  const auto refuse = [](const Json& file, const std::string& named) { require_refused(file, Code::format, named); };
  refuse(without(word_piece(), "/model", "vocab"), "vocab");
  refuse(without(word_piece(), "/model", "unk_token"), "unk_token");
  refuse(without(word_piece(), "/model", "continuing_subword_prefix"), "continuing_subword_prefix");
  refuse(without(word_piece(), "/model", "max_input_chars_per_word"), "max_input_chars_per_word");
  refuse(at(word_piece(), "/model/unk_token", "nowhere"), "nowhere");
  refuse(at(word_piece(), "/model/max_input_chars_per_word", -1), "max_input_chars_per_word");
  refuse(at(word_piece(), "/model/vocab", Json::array()), "model.vocab is an array");
  refuse(at(word_piece(), "/normalizer/lowercase", nullptr), "lowercase");
  refuse(at(word_piece(), "/normalizer/strip_accents", 1), "strip_accents");
  refuse(at(word_piece(), "/decoder/prefix", nullptr), "prefix");
  refuse(at(word_piece(), "/decoder/cleanup", "no"), "cleanup");
  refuse(at(word_piece(), "/truncation", 5), "truncation");
  refuse(at(word_piece(), "/truncation/max_length", -1), "max_length");
  refuse(at(word_piece(), "/post_processor/pair/0/SpecialToken/id", "x"), "\"x\"");
  refuse(at(word_piece(), "/post_processor/single/1/Sequence/id", "C"), "\"C\"");
  refuse(at(word_piece(), "/post_processor/pair/0/SpecialToken/type_id", 256), "type_id");
  for (const char* type : {"BertProcessing", "RobertaProcessing"}) {
    const Json post = {{"type", type}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
    const Json file = at(word_piece(), "/post_processor", post);
    REQUIRE(Tokenizer::from_json(file.dump(), "t", {}).ok());
    refuse(without(file, "/post_processor", "sep"), "sep");
    refuse(at(file, "/post_processor/cls", "x"), "cls");
    refuse(at(file, "/post_processor/cls/1", 99'999), "99999");
    refuse(at(file, "/post_processor/cls/0", 2), "cls");
  }
  const auto unsupported = [](const Json& file, const std::string& named) {
    require_refused(file, Code::unsupported, named);
  };
  unsupported(at(word_piece(), "/model/merges", Json::array()), "merges");
  unsupported(at(word_piece(), "/model/dropout", 0.1), "dropout");
  unsupported(at(word_piece(), "/normalizer/other", 1), "other");
  unsupported(at(word_piece(), "/pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Other"}}), "Other");
  unsupported(
      at(word_piece(), "/decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, word_piece()["decoder"]}}}),
      "WordPiece");
}

TEST_CASE("fields of Unigram that are missing or wrong are named", "[text][bad]") {
  const auto refuse = [](const Json& file, const std::string& named) { require_refused(file, Code::format, named); };
  REQUIRE(Tokenizer::from_json(unigram().dump(), "t", {}).ok());
  refuse(at(unigram(), "/model/vocab", Json::object()), "model.vocab is an object");
  refuse(at(unigram(), "/model/vocab", 1), "model.vocab is a number");
  for (const Json& element : {Json(1), Json("a"), Json::object(), Json::array(), Json{"a"}, Json{"a", "b"},
                              Json{1, "a"}, Json{"a", 1, 2}, Json{"a", nullptr}, Json{"a", Json::array()}})
    refuse(at(unigram(), "/model/vocab/1", element), "model.vocab");
  refuse(at(unigram(), "/model/unk_id", 5), "\"unk_id\" is 5, but model.vocab has 5 tokens");
  refuse(at(unigram(), "/model/unk_id", -1), "unk_id");
  refuse(at(unigram(), "/model/unk_id", "0"), "unk_id");
  refuse(at(unigram(), "/model/byte_fallback", 1), "byte_fallback");
  require_refused(at(unigram(), "/model/fuse_unk", true), Code::unsupported, "fuse_unk");
  auto few_rows = Tokenizer::from_json(unigram().dump(), "t", {4});
  REQUIRE_FALSE(few_rows.ok());
  CHECK(std::string(few_rows.take_status().message()).find("has the id 4, expected 0 to 3") != std::string::npos);
}

TEST_CASE("a character without a token and no unknown token is an error", "[text]") {
  const auto tokenizer = load_tokenizer_text(without(unigram(), "/model", "unk_id").dump());
  std::vector<TokenId> ids = {7};
  REQUIRE(tokenizer->encode("abba", {}, ids).ok());
  ids = {7};
  const Status status = tokenizer->encode("abca", {}, ids);
  CHECK(status.code() == Code::unsupported);
  CHECK(status.message().find("U+0063") != std::string_view::npos);
  CHECK(status.detail() == 2);
  CHECK(ids == std::vector<TokenId>{7});
}

TEST_CASE("a charsmap that leads outside of itself is refused", "[text][bad]") {
  const std::string good = charsmap(small_units(), std::string_view("\0xy\0", 4));
  const auto tokenizer = load_tokenizer_text(with_charsmap(good).dump());
  CHECK(encode(*tokenizer, "xy") == encode(*tokenizer, "a"));
  const auto refuse = [](const Json& file, const std::string& named) { require_refused(file, Code::format, named); };
  refuse(at(unigram(), "/normalizer", {{"type", "Precompiled"}}), "precompiled_charsmap");
  for (const char* bad : {"!!!!", "AAA", "A===", "AB==", "AAAA"})
    refuse(at(unigram(), "/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", bad}}), "charsmap");
  refuse(with_charsmap(charsmap({}, "")), "trie has 0 bytes");
  refuse(with_charsmap(good.substr(0, 40)), "trie has 1024 bytes");
  refuse(with_charsmap(charsmap(small_units(), "\xFF")), "not valid UTF-8");
  std::vector<std::uint32_t> units = small_units();
  units[98] = kIsValue | 5;
  refuse(with_charsmap(charsmap(units, std::string_view("\0xy\0", 4))), "the replacement at 5");
  units[98] = kIsValue | 1;
  refuse(with_charsmap(charsmap(units, "\u00e9")), "the replacement at 1");
  units[97] = 'a' | kHasValue | 300U << 10;
  refuse(with_charsmap(charsmap(units, "xy")), "leads to unit");
  units = small_units();
  units[97] = 'a' | 0U << 10;                       // its child by 'b' is unit 3
  units['a' ^ 'b'] = 'b' | (3U ^ 97U ^ 'a') << 10;  // and leads back
  CHECK(Tokenizer::from_json(with_charsmap(charsmap(units, "xy")).dump(), "t", {}).ok());
}

TEST_CASE("a charsmap cannot make a text grow without bound", "[text]") {
  const std::string long_text(100'000, 'x');
  const auto tokenizer =
      load_tokenizer_text(with_charsmap(charsmap(small_units(), std::string("\0", 1) + long_text)).dump());
  std::vector<TokenId> ids;
  CHECK(tokenizer->encode(std::string(100'000, 'a'), {}, ids).code() == Code::unsupported);
  CHECK(ids.empty());
}

TEST_CASE("grapheme clusters end where Unicode says", "[text]") {
  struct Case {
    std::string text;
    std::size_t end;
  };
  for (const Case& c : std::vector<Case>{{"ab", 1},
                                         {"\r\n", 2},
                                         {"\r\r", 1},
                                         {"e\u0301\u0323x", 5},
                                         {"\u0600a", 3},                    // a prefix
                                         {"\u1100\u1161\u11a8\u0301", 11},  // a syllable
                                         {"\uac00\u11a8\u11a8", 9},
                                         {"\u00a9\u200d\u00ae", 7},  // joined pictures
                                         {"\u00a9\u0301\u200d\u00ae", 9},
                                         {"a\u200d\u00ae", 4},
                                         {"\U0001F1E6\U0001F1E7\U0001F1E8", 8},  // two of three indicators
                                         {"\u0915\u094d\u0937x", 9},             // a conjunct
                                         {"\u0915\u0301\u0937", 5},
                                         {"\n\u0301", 1},
                                         {"\u0915\u093e", 6}}) {
    INFO(c.text);
    CHECK(text::cluster_end(c.text, 0) == c.end);
  }
}

TEST_CASE("texts that are made to take long take bounded time", "[text]") {
  using Clock = std::chrono::steady_clock;
  // Ten times and more what an optimised build takes; a quadratic step would take hours.
  constexpr double kSeconds = 20;
  for (const char* name :
       {"word_piece", "unigram", "unigram_t5", "unigram_bytes", "form_nfkd", "form_nfkc", "form_nfd"}) {
    const auto tokenizer = load_tokenizer_text(fixture(name));
    for (const std::string unit : {"a", "\u0301", "\u0316\u0301", "\uac00", "\u4f60", " ", "\ufdfa", "\u1100", "<s"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      INFO(name << ", a megabyte of \"" << unit << "\"");
      const auto begin = Clock::now();
      std::vector<TokenId> ids;
      const Status status = tokenizer->encode(text, {}, ids);
      CHECK(std::chrono::duration<double>(Clock::now() - begin).count() < kSeconds);
      if (!status.ok()) CHECK(status.code() == Code::unsupported);
    }
  }
}

TEST_CASE("long tokens are found within the steps of a text", "[text]") {
  // From each place of the text the walk goes through all of the longest token.
  Json tied = unigram();
  Json pieces = word_piece();
  pieces["model"]["max_input_chars_per_word"] = 1'000'000'000;
  for (const std::size_t n : {100U, 1000U, 60'000U}) {
    tied["model"]["vocab"].push_back(Json::array({std::string(n, 'a'), -1.0}));
    pieces["model"]["vocab"]["##" + std::string(n, 'a') + "b"] = 100'000 + n;
  }
  pieces["model"]["vocab"]["##a"] = 99'999;
  const std::string text(200'000, 'a');
  for (const Json& file : {tied, pieces}) {
    const auto tokenizer = load_tokenizer_text(file.dump());
    std::vector<TokenId> ids;
    const Status status = tokenizer->encode(text, {}, ids);
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().find("steps for this text") != std::string_view::npos);
    CHECK(ids.empty());
  }
}
