// Chat templates against jinja2 as transformers sets it up: fixtures/chat_cases.json, made by make_chat_cases.py, and
// the renderings of real models' templates in the test data.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "jinja/support.h"
#include "support/catch.h"
#include "support/test_data.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;
using Json = nlohmann::ordered_json;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The spans of a text that were made inside {% generation %}, in characters, as transformers counts them; touching
/// ones are one here.
Json generated_spans(const jinja::Rendered& rendered) {
  const auto characters = [&](std::size_t end) {
    return std::count_if(rendered.text.begin(), rendered.text.begin() + static_cast<std::ptrdiff_t>(end),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  };
  Json spans = Json::array();
  for (const Span& span : rendered.generated)
    spans.push_back(Json::array({characters(span.begin), characters(span.end)}));
  return spans;
}

Json without_empty(const Json& spans) {
  Json kept = Json::array();
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(kept),
               [](const Json& span) { return span[0] != span[1]; });
  return kept;
}

/// Errors whose text is jinja2's own, or what a template's author meets most: ours has it too. What the rest of Python
/// says of wrong types and values differs between its versions; there only that it is an error counts.
bool has_same_text(const std::string& error) {
  for (const char* type : {"UndefinedError", "SecurityError", "TemplateError", "TemplateRuntimeError",
                           "ZeroDivisionError", "TemplateAssertionError: No "})
    if (error.starts_with(type)) return true;
  return error.find("can only concatenate") != error.npos || error.find("not JSON serializable") != error.npos ||
         error.find("is not iterable") != error.npos || error.find("has no len()") != error.npos ||
         error.find("not supported between") != error.npos;
}

std::string text_of(const std::string& error) { return error.substr(error.find(": ") + 2); }

}  // namespace

TEST_CASE("chat templates: small ones render as in jinja2", "[chat]") {
  const Json fixture = Json::parse(read_text(QINFER_TEST_FIXTURES "/chat_cases.json"));
  std::vector<std::string> variables;
  for (const Json& values : fixture["variables"]) variables.push_back(values.dump());
  REQUIRE(fixture["cases"].size() >= 1000);
  for (const Json& wanted : fixture["cases"]) {
    const std::string source = wanted["t"];
    CAPTURE(source);
    const ChatResult result = render_chat(source, variables[wanted["v"]]);
    if (wanted.contains("e")) {
      const std::string error = wanted["e"];
      INFO("jinja2 says " << error << ", we say " << result.message << " " << result.text());
      CHECK(!result.ok());
      if (has_same_text(error)) CHECK(result.message.find(text_of(error)) != std::string::npos);
      continue;
    }
    INFO("error: " << result.message);
    CHECK(result.text() == wanted["o"].get<std::string>());
    if (wanted.contains("g")) CHECK(generated_spans(result.rendered) == without_empty(wanted["g"]));
  }
}

TEST_CASE("chat templates: those of real models render as in transformers", "[chat]") {
  SKIP_UNLESS_TEST_DATA("golden-chat/conversations.json");
  const std::filesystem::path folder = find_test_data("golden-chat/conversations.json").parent_path();
  const Json conversations = Json::parse(read_text(folder / "conversations.json"));
  int n = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".golden.json")) continue;
    const std::string source =
        read_text(folder / ".." / "chat-templates" / name.substr(0, name.size() - std::string(".golden.json").size()));
    const Json expected = Json::parse(read_text(file.path()));
    for (const auto& [conversation, wanted] : expected.items()) {
      CAPTURE(name, conversation);
      Json variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_generation_prompt", true}};
      variables.update(conversations[conversation]);
      const ChatResult result = render_chat(source, variables.dump(), false);
      INFO(result.message);
      if (wanted.contains("output")) {
        CHECK(result.text() == wanted["output"].get<std::string>());
      } else {
        CHECK(!result.ok());
        CHECK(result.message.find(text_of(wanted["error"])) != std::string::npos);
      }
      ++n;
    }
  }
  REQUIRE(n == 99);
}
