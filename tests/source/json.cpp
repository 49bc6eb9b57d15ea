// The JSON reader, beside nlohmann's: which texts are JSON, what their values are, and where an error is.
#include "formats/json.h"

#include <sys/mman.h>

#include <nlohmann/json.hpp>
#include <random>

#include "support/catch.h"

using namespace qinfer;
using namespace qinfer::formats;

namespace {

using Other = nlohmann::json;

void check_equal(const Json& ours, const Other& theirs) {
  switch (theirs.type()) {
    case Other::value_t::null: REQUIRE(ours.is_null()); break;
    case Other::value_t::boolean: REQUIRE((ours.is_boolean() && ours.boolean() == theirs.get<bool>())); break;
    case Other::value_t::string: REQUIRE(ours.text() == theirs.get<std::string>()); break;
    case Other::value_t::number_integer:
    case Other::value_t::number_unsigned:
    case Other::value_t::number_float:
      REQUIRE(ours.is_number());
      REQUIRE(ours.number() == theirs.get<double>());
      break;
    case Other::value_t::array:
    case Other::value_t::object: {
      REQUIRE(ours.size() == theirs.size());
      std::size_t i = 0;
      for (const Json& member : ours) {
        if (theirs.is_object()) REQUIRE(theirs.contains(member.key()));
        check_equal(member, theirs.is_object() ? theirs.at(std::string(member.key())) : theirs.at(i++));
      }
      break;
    }
    default: FAIL("no JSON");
  }
}

/// A text that is nearly JSON: pieces of it, in an order that is mostly right.
std::string nearly_json(std::mt19937& random, int depth) {
  const auto one_of = [&](std::initializer_list<const char*> all) {
    return std::string(all.begin()[random() % all.size()]);
  };
  if (random() % 60 == 0)
    return one_of({"", ",", "]", "nul", "True", "'a'", "01", "1.", ".5", "+1", "\"\\x\"", "\"\n\""});
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0: return one_of({"null", "true", "false"});
    case 1:
      return one_of({"0", "-0", "17", "-3", "9223372036854775807", "9223372036854775808", "18446744073709551615",
                     "18446744073709551616", "-9223372036854775808", "-9223372036854775809"});
    case 2:
      return one_of({"0.1", "-2.5e-3", "1E5", "3.0", "1e308", "1e-320", "1e-400", "123456789.123456789e-7", "1e400",
                     "0.00001e310", "1e999999999999", "1e-99999999999", "0.001e-9223372036854775808", "-1e-400"});
    case 3:
      return one_of({"\"\"", "\"a\"", "\"\\n\\t\\\"\\\\\\/\\b\"", "\"\\u00e9\"", "\"\\ud83d\\ude00\"", "\"\\ud800\"",
                     "\"\\ude00\"", "\"\\ud800\\u0041\"", "\"\\u12\"", "\"\xC3\xA9\"", "\"\xF0\x9F\x99\x82\""});
    case 4:
      return one_of({"\"\xC3\"", "\"\xED\xA0\x80\"", "\"\xC0\x80\"", "\"\x7F\"", "\"\x1F\"", "\"\xEF\xBB\xBF\"",
                     "\"\\u0000\"", "\"unended", "\xEF\xBB\xBF", "\"\xED\x9F\xBF\""});
    case 5: return one_of({" 1 ", "\t2\n", "\r\n3", "\f4", " "});
    default: break;
  }
  const bool is_object = random() % 2 == 0;
  std::string out(is_object ? "{" : "[");
  const std::size_t n = random() % 4;
  for (std::size_t i = 0; i < n; ++i) {
    if (i != 0) out += one_of({",", ", ", " ,\n"});
    if (is_object) out += "\"k" + std::to_string(i) + one_of({"\":", "\" : "});
    out += nearly_json(random, depth - 1);
  }
  if (random() % 80 == 0) out += ',';
  return out + (is_object ? '}' : ']');
}

}  // namespace

TEST_CASE("JSON is what nlohmann's parser takes for it, with the same values", "[json]") {
  std::mt19937 random(5);
  int good = 0;
  for (int i = 0; i < 60000; ++i) {
    const std::string text = nearly_json(random, 3);
    CAPTURE(text);
    const auto ours = parse_json(text, "t");
    Other theirs;
    bool is_json = true;
    try {
      theirs = Other::parse(text);
    } catch (const Other::exception&) {
      is_json = false;
    }
    REQUIRE(ours.ok() == is_json);
    good += is_json ? 1 : 0;
    if (is_json) check_equal(ours.value().root(), theirs);
  }
  CHECK(good > 20000);
  CHECK(good < 55000);
}

TEST_CASE("Integers of JSON keep all of their digits", "[json]") {
  const auto parsed = parse_json("[9223372036854775807, -9223372036854775808, 18446744073709551615, 1.0, -0]", "t");
  REQUIRE(parsed.ok());
  std::vector<const Json*> values;
  for (const Json& value : parsed.value().root()) values.push_back(&value);
  CHECK((values[0]->is_integer() && values[0]->integer() == INT64_MAX));
  CHECK((values[1]->is_integer() && values[1]->integer() == INT64_MIN));
  CHECK(values[2]->spelling() == "18446744073709551615");
  CHECK((!values[3]->is_integer() && values[3]->number() == 1.0));
  CHECK((values[4]->is_integer() && values[4]->integer() == 0));
}

TEST_CASE("An error in JSON names its place, and what is wrong there", "[json]") {
  const auto error_of = [](std::string_view text) {
    auto parsed = parse_json(text, "f.json");
    REQUIRE(!parsed.ok());
    return parsed.take_status();
  };
  const Status colon = error_of("{\n  \"a\" 1}");
  CHECK(std::string(colon.message()) ==
        "f.json: line 2, column 7: syntax error: Missing a colon after a name of object member");
  CHECK(colon.detail() == 8);
  CHECK(std::string(error_of("[1e400]").message()) == "f.json: line 1, column 2: number overflow parsing '1e400'");
  CHECK(std::string(error_of("[1, 2").message()).find("unexpected end of the text") != std::string::npos);
  CHECK(std::string(error_of("1 2").message()).find("more follows") != std::string::npos);
  CHECK(std::string(error_of("[\"\\ude00\"]").message()).find("surrogate") != std::string::npos);
}

TEST_CASE("JSON of more than 4 GiB is refused before it is read", "[json]") {
  constexpr std::size_t kSize = (std::size_t{4} << 30) + 1;
  void* const memory = mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto parsed = parse_json({static_cast<const char*>(memory), kSize}, "f.json");
  munmap(memory, kSize);
  REQUIRE(!parsed.ok());
  CHECK(std::string(parsed.take_status().message()).find("at most 4294967295") != std::string::npos);
}
