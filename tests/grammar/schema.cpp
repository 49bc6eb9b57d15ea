// JSON schema's keywords that the grammar library spells out for its engine: documents that they allow and forbid,
// which of them are refused, by which name and place, and limits on what spelling out makes of a schema.
// tests/fixtures/check_json_schema.py and check_random_schemas.py hold the same to the suite and to the jsonschema
// library.
#include <qinfer/qinfer_grammar.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/support.h"

using namespace qinfer::test;

namespace {

struct Case {
  const char* schema;
  std::vector<const char*> good, bad;
};

void check(const Case& c) {
  const SmallVocab small;
  INFO(c.schema);
  const Grammar grammar = compile(small.vocab, QINFER_GRAMMAR_JSON_SCHEMA, c.schema);
  for (const char* good : c.good) {
    INFO("should be allowed: " << good);
    CHECK(fulfils(small, grammar, good));
  }
  for (const char* bad : c.bad) {
    INFO("should be forbidden: " << bad);
    CHECK_FALSE(fulfils(small, grammar, bad));
  }
}

std::uint32_t warnings(const char* schema) {
  const SmallVocab small;
  const Grammar grammar = compile(small.vocab, QINFER_GRAMMAR_JSON_SCHEMA, schema);
  auto info = sized<qinfer_grammar_info>();
  REQUIRE_OK(qinfer_grammar_get_info(grammar.get(), &info, &err));
  return info.n_warnings;
}

void check_refused(qinfer_status status, const char* word, const std::string& schema) {
  const SmallVocab small;
  INFO(schema.substr(0, 300));
  qinfer_grammar* out = nullptr;
  REQUIRE_FAILS(status, word,
                qinfer_grammar_compile(small.vocab.get(), QINFER_GRAMMAR_JSON_SCHEMA, schema.data(), schema.size(),
                                       nullptr, &out, &err));
}

}  // namespace

TEST_CASE("schema: not", "[grammar]") {
  check({R"({"not":{"type":["string","object"]}})", {"1", "null", "[]"}, {"\"a\"", "{}"}});
  check({R"({"type":"string","not":{"enum":["ab","a",1]}})",
         {"\"\"", "\"b\"", "\"abc\"", "\"\\n\""},
         {"\"a\"", "\"ab\""}});
  check({R"({"type":"number","not":{"enum":[2,5.5]}})", {"1", "3", "5.4", "6"}, {"2", "5.5"}});
  check({R"({"not":{"const":{"a":[1]}}})",
         {"{}", R"({"a":[2]})", R"({"a":[1,1]})", R"({"a":[1],"b":1})", "[1]"},
         {R"({"a":[1]})"}});
  check({R"({"type":"object","not":{"required":["a"]}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}});
  check({R"({"not":{"not":{"type":"null"}}})", {"null"}, {"1"}});
  check({R"({"type":"array","not":{"items":{"type":"null"}}})", {"[1]", "[1,null]"}, {"[]", "[null]"}});
  check({R"({"not":{"anyOf":[{"type":"string"},{"minimum":3},{"type":"number","maximum":1}]}})",
         {"2"},
         {"3", "1", "{}"}});
  // The text's own quoting is not the value's: an excluded text is excluded however it is written.
  check({R"({"type":"string","not":{"const":"a\"b"}})", {R"("ab")"}, {R"("a\"b")"}});
}

TEST_CASE("schema: patterns exclude what they exclude when it is escaped", "[grammar]") {
  check({R"({"type":"string","pattern":"^[^\"]+$"})", {R"("a")", R"("a\\b")", R"("\n")"}, {R"("a\"")", R"("")"}});
  check({R"({"type":"string","pattern":"^[^\\\\]+$"})", {R"("a")", R"("a\"b")"}, {R"("a\\b")"}});
  check({R"({"type":"string","pattern":"^([\\x00-\\x0f]|[\\x10-\\x1f])$"})",
         {R"("\n")", R"("\t")"},
         {R"("\\")", R"("\"")", R"("\u001f")"}});
  check({R"({"type":"object","patternProperties":{"^[^\"]$":{}},"additionalProperties":false})",
         {R"({"a":1})"},
         {R"({"\"":1})"}});
}

TEST_CASE("schema: what could be written or read in two ways is taken in one", "[grammar]") {
  check({R"({"type":"object","properties":{"a":{"type":"integer"}}})",
         {R"({"a":1})"},
         {R"({"\u0061":"x"})", R"({"a":1,"\u0061":"x"})"}});
  check(
      {R"({"type":"object","patternProperties":{"^a":{"type":"integer"}}})", {R"({"ab":1})"}, {R"({"\u0061b":"x"})"}});
  check({R"({"type":"object","not":{"required":["a"]}})", {"{}"}, {R"({"\u0061":1})"}});
  check({R"({"type":"object","properties":{"a\nb":false}})", {"{}"}, {R"({"a\nb":1})", R"({"a\u000ab":1})"}});
  check(
      {R"({"type":"string","pattern":"^[^a&&b~[]$"})", {R"("c")"}, {R"("a")", R"("b")", R"("&")", R"("~")", R"("[")"}});
  check_refused(QINFER_E_UNSUPPORTED, "no document that can be drawn", R"({"const":"a\u0000b"})");
  // Nor do values with control characters that only \\u writes become the same without them.
  check({R"({"enum":["a\u0000b","c",["a\u007f"]]})", {R"("c")"}, {R"("ab")", R"("a\u0000b")", R"(["a"])"}});
  check({R"({"anyOf":[{"const":"a\u0001b"},{"type":"null"}]})", {"null"}, {R"("ab")"}});
  check({R"({"type":"string","pattern":"^(a\\x00b|c[\\x00-\\x02]|d\\x7fe|f)$"})",
         {R"("f")"},
         {R"("ab")", R"("c")", R"("de")", R"("a\u0000b")"}});
  check_refused(QINFER_E_UNSUPPORTED, "\"const\" at # has 9007199254740993", R"({"const":9007199254740993})");
  check_refused(QINFER_E_UNSUPPORTED, "\"minimum\" at #/not has", R"({"not":{"minimum":9007199254740993}})");
  check_refused(QINFER_E_FORMAT, "expected names of JSON's types", R"({"not":{"type":"int"}})");
  check_refused(QINFER_E_FORMAT, "\"dependentRequired\" at # is no array", R"({"dependentRequired":{"a":"b"}})");
  check_refused(
      QINFER_E_UNSUPPORTED, "where no schema is expected",
      R"({"$defs":{"c":{"$id":"http://x/c","x-d":{"foo":{}},"properties":{"p":{"$ref":"#/x-d/foo"}}}},"$ref":"http://x/c"})");
  check({R"({"type":"object","properties":{"a":{},"b":{}},"minProperties":1})",
         {R"({"a":1})", R"({"b":1,"c":1})"},
         {"{}"}});
  check({R"({"type":"object","properties":{"a":{}},"required":["a"],"minProperties":1})", {R"({"a":1})"}, {"{}"}});
  check_refused(QINFER_E_UNSUPPORTED, "minProperties", R"({"required":["a","a"],"minProperties":3})");
}

TEST_CASE("schema: if, then, else", "[grammar]") {
  const char* kinds = R"({"type":"object","properties":{"kind":{"enum":["a","b"]},"n":{}},"required":["kind","n"],
    "if":{"properties":{"kind":{"const":"a"}}},"then":{"properties":{"n":{"type":"integer"}}},
    "else":{"properties":{"n":{"type":"string"}}}})";
  check({kinds,
         {R"({"kind":"a","n":1})", R"({"kind":"b","n":"x"})"},
         {R"({"kind":"a","n":"x"})", R"({"kind":"b","n":1})"}});
  check({R"({"if":{"type":"string"},"then":{"maxLength":1}})", {"\"a\"", "12"}, {"\"ab\""}});
  check({R"({"if":{"type":"string"},"else":{"type":"null"}})", {"\"ab\"", "null"}, {"1"}});
  check({R"({"if":false,"else":{"type":"null"}})", {"null"}, {"1"}});
  check({R"({"then":{"type":"null"}})", {"1"}, {}});
}

TEST_CASE("schema: oneOf", "[grammar]") {
  check({R"({"oneOf":[{"maximum":3},{"type":"number","minimum":2}]})", {"1", "4", "\"a\""}, {"2", "3"}});
  check({R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],
             "$defs":{"a":{"type":"object","properties":{"kind":{"const":"a"}},"required":["kind"]},
                      "b":{"type":"object","properties":{"kind":{"const":"b"},"n":{}},"required":["kind","n"]}}})",
         {R"({"kind":"a"})", R"({"kind":"b","n":1})"},
         {R"({"kind":"b"})", R"({"kind":"c"})"}});
  check({R"({"oneOf":[{"required":["a"],"properties":{"a":{}},"additionalProperties":false},
                      {"required":["b"],"properties":{"b":{}},"additionalProperties":false}],"type":"object"})",
         {R"({"a":1})", R"({"b":1})"},
         {"{}", R"({"a":1,"b":1})"}});
  check_refused(QINFER_E_INVALID_ARGUMENT, "nothing fulfils", R"({"oneOf":[{},{}]})");
  // What is around the branches counts: the type, and that the tag must be there.
  check({R"({"type":"object","properties":{"kind":{"enum":["a","b"]}},"required":["kind"],
             "oneOf":[{"properties":{"kind":{"const":"a"},"d":{"type":"string","pattern":"^x"}}},
                      {"properties":{"kind":{"const":"b"},"d":{"type":"string","pattern":"^y"}}}],
             "unevaluatedProperties":false})",
         {R"({"kind":"a","d":"x"})", R"({"kind":"b"})"},
         {R"({"kind":"a","d":"y"})", R"({"kind":"b","e":1})", "{}", R"({"d":"x"})"}});
  check_refused(QINFER_E_UNSUPPORTED, "\"oneOf\" at #/items has schemas that are not seen to exclude each other",
                R"({"items":{"oneOf":[{"pattern":"a"},{"pattern":"b"}]}})");
}

TEST_CASE("schema: dependentRequired, dependentSchemas, propertyNames", "[grammar]") {
  check({R"({"type":"object","properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}})",
         {"{}", R"({"b":1})", R"({"a":1,"b":1})"},
         {R"({"a":1})", R"({"a":1,"c":1})"}});
  check({R"({"properties":{"a":{},"b":{}},"dependentSchemas":{"a":{"properties":{"b":{"type":"null"}}}}})",
         {"1", R"({"b":1})", R"({"a":1})", R"({"a":1,"b":null})"},
         {R"({"a":1,"b":1})"}});
  check({R"({"type":"object","propertyNames":{"pattern":"^a"}})", {"{}", R"({"abc":1})"}, {R"({"b":1})"}});
  check({R"({"type":"object","propertyNames":{"maxLength":2}})", {R"({"ab":1})"}, {R"({"abc":1})"}});
  check({R"({"type":"object","propertyNames":{"enum":["a",1]}})", {"{}", R"({"a":1})"}, {R"({"b":1})"}});
  check_refused(QINFER_E_UNSUPPORTED, "\"pattern\" at #/propertyNames",
                R"({"propertyNames":{"pattern":"a","maxLength":3}})");
}

TEST_CASE("schema: contains and uniqueItems", "[grammar]") {
  check({R"({"type":"array","contains":{"type":"null"}})", {"[null]", "[null,1]"}, {"[]", "[1]"}});
  check({R"({"type":"array","prefixItems":[{"type":"string"}],"contains":{"type":"null"}})",
         {R"(["a",null])"},
         {"[]", R"(["a"])"}});
  check({R"({"contains":{"type":"null"},"minContains":2,"maxContains":3})",
         {"[null,null]", "[null,null,null]", "[null,null,1,2]", "1"},
         {"[null]", "[null,null,null,null]"}});
  check({R"({"type":"array","contains":{"type":"null"},"minContains":0})", {"[]", "[1]"}, {}});
  check({R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[]", "[1]"}, {"[1,1]"}});
  CHECK(warnings(R"({"type":"array","contains":{"type":"null"}})") == 1);
  CHECK(warnings(R"({"type":"array"})") == 0);
  check_refused(QINFER_E_UNSUPPORTED, "\"uniqueItems\" at #/properties/a~1b cannot be enforced",
                R"({"properties":{"a/b":{"type":"array","uniqueItems":true}}})");
  check_refused(QINFER_E_UNSUPPORTED, "counts beyond 1000", R"({"contains":{},"minContains":1001})");
}

TEST_CASE("schema: unevaluatedProperties and unevaluatedItems", "[grammar]") {
  check({R"({"$ref":"#/$defs/base","properties":{"b":{}},"unevaluatedProperties":false,
             "$defs":{"base":{"type":"object","properties":{"a":{}},"required":["a"]}}})",
         {R"({"a":1})", R"({"a":1,"b":1})"},
         {R"({"a":1,"c":1})", R"({"b":1})"}});
  check({R"({"type":"object","properties":{"k":{}},"anyOf":[{"properties":{"a":{"type":"null"}},"required":["a"]},
             {"properties":{"b":{}},"required":["b"]}],"unevaluatedProperties":false})",
         {R"({"a":null})", R"({"k":1,"b":1})", R"({"a":null,"b":1})"},
         {R"({"k":1})", R"({"a":1,"b":1})", R"({"a":null,"c":1})"}});
  check({R"({"type":"object","if":{"properties":{"a":{"const":1}},"required":["a"]},
             "then":{"properties":{"b":{}}},"else":{"properties":{"c":{}}},"unevaluatedProperties":{"type":"null"}})",
         {R"({"a":1,"b":1})", R"({"c":1})", R"({"a":null,"c":1})"},
         {R"({"a":1,"c":1})", R"({"b":1})", R"({"a":2})"}});
  check({R"({"type":"array","prefixItems":[{}],"unevaluatedItems":false})", {"[]", "[1]"}, {"[1,2]"}});
  check({R"({"type":"array","allOf":[{"contains":{"type":"null"}}],"unevaluatedItems":{"type":"string"}})",
         {"[null]", R"([null,"a",null])"},
         {"[1]", "[null,1]"}});
}

TEST_CASE("schema: references by address, anchor and on the way", "[grammar]") {
  check({R"({"$id":"http://example.com/a/b.json","$ref":"c.json#name",
             "$defs":{"c":{"$id":"c.json","$defs":{"d":{"$anchor":"name","type":"null"}}}}})",
         {"null"},
         {"1"}});
  check({R"({"$ref":"#/$defs/a~0b~1c%25","$defs":{"a~b/c%":{"type":"null"}}})", {"null"}, {"1"}});
  check({R"({"type":"array","minItems":2.0,"maxItems":2.0})", {"[1,2]"}, {"[1]"}});
  // A list of strings out of a list of anything, whose elements are what the outermost $dynamicAnchor says.
  check({R"({"$id":"strings","$ref":"list","$defs":{"item":{"$dynamicAnchor":"item","type":"string"},
             "list":{"$id":"list","type":"array","items":{"$dynamicRef":"#item"},
                     "$defs":{"any":{"$dynamicAnchor":"item"}}}}})",
         {R"(["a"])"},
         {"[1]"}});
  check({R"({"properties":{"a":{"$ref":"#/$defs/never"}},"$defs":{"never":{"anyOf":[{"$ref":"#/$defs/no"}]},"no":false},
             "type":"object"})",
         {"{}", R"({"b":1})"},
         {R"({"a":1})"}});
  check({R"({"const":{"$ref":"#/$defs/no"}})", {R"({"$ref":"#/$defs/no"})"}, {}});
  // What would have to hold itself is no document.
  check({R"({"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}],
             "$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}}})",
         {"null"},
         {"{\"a\":null}"}});
  check_refused(QINFER_E_INVALID_ARGUMENT, "nothing fulfils",
                R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}})");
  check_refused(QINFER_E_INVALID_ARGUMENT, "nothing fulfils", R"({"type":"array","minItems":1,"items":{"$ref":"#"}})");
  check_refused(QINFER_E_UNSUPPORTED, "leads to another document", R"({"$ref":"https://example.com/x.json"})");
  check_refused(QINFER_E_UNSUPPORTED, "leads to nothing in the schema", R"({"$ref":"#/$defs/x"})");
  check_refused(QINFER_E_UNSUPPORTED, "is no URI reference", R"({"$ref":"::"})");
  check_refused(QINFER_E_UNSUPPORTED, "leads back to itself",
                R"({"not":{"$ref":"#/$defs/a"},"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}}})");
}

TEST_CASE("schema: fifty of everyday use, with documents that they allow and forbid", "[grammar]") {
  std::ifstream file(QINFER_TEST_FIXTURES "/real_schemas.json");
  const auto items = nlohmann::ordered_json::parse(file);
  REQUIRE(items.size() == 50);
  const SmallVocab small;
  for (const nlohmann::ordered_json& item : items) {
    INFO(item["name"].get<std::string>());
    const Grammar grammar = compile(small.vocab, QINFER_GRAMMAR_JSON_SCHEMA, item["schema"].dump());
    for (const bool valid : {true, false})
      for (const nlohmann::ordered_json& document : item[valid ? "valid" : "invalid"]) {
        INFO((valid ? "should be allowed: " : "should be forbidden: ") << document.dump());
        CHECK(fulfils(small, grammar, document.dump()) == valid);
      }
  }
}

TEST_CASE("schema: what has no opposite, wrong shapes and growth are refused", "[grammar]") {
  check_refused(QINFER_E_UNSUPPORTED, "\"pattern\" at #/not must be violated", R"({"not":{"pattern":"a"}})");
  check_refused(QINFER_E_FORMAT, "not 5 (at #/not)", R"({"not":5})");
  check_refused(QINFER_E_FORMAT, "\"allOf\" at # is no array", R"({"allOf":{}})");
  check_refused(QINFER_E_FORMAT, "expected a whole number", R"({"minItems":1.5})");
  CHECK(warnings(R"({"type":"string","format":"hat-size"})") == 1);
  check_refused(QINFER_E_UNSUPPORTED, "\"multipleOf\" at # makes more than 1000000", R"({"multipleOf":123456789})");
  check_refused(QINFER_E_UNSUPPORTED, "\"multipleOf\" at #/allOf/1",
                R"({"allOf":[{"multipleOf":1009},{"multipleOf":1013}]})");
  check({R"({"multipleOf":100000000})", {"0", "200000000"}, {"1000"}});
  const std::string longest(150, 'x');
  check({(R"({"type":"string","not":{"const":")" + longest + "\"}}").c_str(),
         {"\"\"", "\"x\"", "\"y\""},
         {("\"" + longest + "\"").c_str()}});
  std::string names;
  for (int at = 0; at < 4001; ++at) names += (at == 0 ? "\"p" : ",\"p") + std::to_string(at) + "\":{}";
  check_refused(QINFER_E_UNSUPPORTED, "has 4001 members, expected at most 4000", "{\"properties\":{" + names + "}}");
  // Each level doubles what it holds.
  std::string schema = R"({"type":"null"})";
  for (int level = 0; level < 25; ++level)
    schema = R"({"contains":)" + schema + R"(,"minContains":2,"maxContains":9,"type":"array"})";
  check_refused(QINFER_E_UNSUPPORTED, "grows beyond", schema);
  std::string branches;
  for (int at = 0; at < 100; ++at)
    branches += (at == 0 ? "" : ",") + std::string(R"({"properties":{"p)") + std::to_string(at) + R"(":{}}})";
  check_refused(QINFER_E_UNSUPPORTED, "combinations", R"({"unevaluatedProperties":false,"anyOf":[)" + branches + "]}");
}
