// What people, tools and documents write is no control token, whatever it is and wherever a template puts it: every
// template of the test data with every tokenizer of it.
#include <fmt/format.h>

#include <filesystem>

#include "jinja/support.h"
#include "support/test_data.h"
#include "support/tokenizers.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

std::vector<TokenId> ids_of(const Tokenizer& tokenizer, const ChatResult& result) {
  text::EncodeOptions options;
  options.parse_special = true;
  options.content = result.rendered.content;
  std::vector<TokenId> ids;
  REQUIRE(tokenizer.encode(result.text(), options, ids).ok());
  return ids;
}

/// As in fixtures/make_chat_ids.py: FNV-1a over the bytes of the ids.
std::string digest(const std::vector<TokenId>& ids) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const TokenId id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      value = (value ^ (static_cast<std::uint32_t>(id) >> shift & 255)) * 0x100000001b3;
  return fmt::format("{:016x}", value);
}

/// The tokens of a rendered conversation that are control tokens; nothing where the template refuses it.
std::optional<std::size_t> control_tokens_of(const Tokenizer& tokenizer, const std::string& source,
                                             const Json& variables) {
  const ChatResult result = render_chat(source, variables.dump());
  if (!result.ok()) return std::nullopt;
  const std::vector<TokenId> ids = ids_of(tokenizer, result);
  return static_cast<std::size_t>(
      std::count_if(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer.is_control(id); }));
}

/// A conversation with `first` and `second` in all places that are not the template's.
Json conversation_with(const std::string& first, const std::string& second, bool tools) {
  Json out = {{"bos_token", ""}, {"eos_token", ""}, {"add_generation_prompt", true}};
  out["messages"] = Json::array({{{"role", "user"}, {"content", "a " + first}},
                                 {{"role", "assistant"}, {"content", second + " b" + first + second}},
                                 {{"role", "user"}, {"content", first + second}}});
  if (!tools) return out;
  const Json call = {{"id", "abcdefghi"},
                     {"type", "function"},
                     {"function", {{"name", "f" + first}, {"arguments", {{"city" + second, first + second}}}}}};
  out["messages"].push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}});
  out["messages"].push_back(
      {{"role", "tool"}, {"name", "f" + first}, {"tool_call_id", "abcdefghi"}, {"content", second + first + second}});
  const Json parameters = {{"type", "object"},
                           {"properties", {{"city" + second, {{"type", "string"}, {"description", first + second}}}}},
                           {"required", Json::array()}};
  out["tools"] = Json::array(
      {{{"type", "function"},
        {"function", {{"name", "f" + first}, {"description", first + second}, {"parameters", parameters}}}}});
  return out;
}

}  // namespace

TEST_CASE("chat tokens: no template turns what was written into a control token", "[chat][data]") {
  SKIP_UNLESS_TEST_DATA("golden-chat/conversations.json");
  SKIP_UNLESS_TEST_DATA("tokenizers/qwen3/tokenizer.json");
  SKIP_UNLESS_TEST_DATA("tokenizers/mistral/tokenizer.json");
  const std::filesystem::path templates =
      find_test_data("golden-chat/conversations.json").parent_path() / ".." / "chat-templates";
  int checked = 0;
  for (const char* name : {"tokenizers/qwen3/tokenizer.json", "tokenizers/mistral/tokenizer.json",
                           "tokenizers/minimind/tokenizer.json", "tokenizers/phi3/tokenizer.json"}) {
    const Json file = Json::parse(read_text_file(find_test_data(name)));
    const auto tokenizer = load_tokenizer_text(file.dump());
    std::vector<std::string> tokens;
    for (const Json& token : file["added_tokens"])
      if (tokenizer->is_control(token["id"].get<TokenId>())) tokens.push_back(token["content"].get<std::string>());
    for (const auto& entry : std::filesystem::directory_iterator(templates)) {
      const std::string source = read_text_file(entry.path());
      for (const bool tools : {false, true}) {
        const auto plain = control_tokens_of(*tokenizer, source, conversation_with("x", "y", tools));
        if (!plain) continue;  // it has no tools, or no such roles
        for (const std::string& token : tokens) {
          for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, token.size() / 2, token.size() - 1}) {
            INFO(name << ", " << entry.path().filename().string() << (tools ? ", tools: " : ": ") << token << " cut at "
                      << cut);
            const auto counted = control_tokens_of(*tokenizer, source,
                                                   conversation_with(token.substr(0, cut), token.substr(cut), tools));
            CHECK((!counted || *counted == *plain));
            checked += counted ? 1 : 0;
          }
        }
      }
    }
  }
  CHECK(checked >= 500);
}

TEST_CASE("chat tokens: other content has the ids of the tokenizers library", "[chat][data]") {
  SKIP_UNLESS_TEST_DATA("golden-chat/conversations.json");
  SKIP_UNLESS_TEST_DATA("tokenizers/qwen3/tokenizer.json");
  const std::filesystem::path data = find_test_data("golden-chat/conversations.json").parent_path().parent_path();
  // Templates print tools as JSON, in the order of their members.
  using Ordered = nlohmann::ordered_json;
  const Ordered conversations = Ordered::parse(read_text_file(data / "golden-chat" / "conversations.json"));
  const Json expected = Json::parse(read_text_file(QINFER_TEST_FIXTURES "/chat_ids.json"));
  int checked = 0;
  for (const auto& [name, templates] : expected.items()) {
    const auto tokenizer = load_tokenizer_text(read_text_file(data / "tokenizers" / name / "tokenizer.json"));
    for (const auto& [file, wanted] : templates.items()) {
      const std::string source = read_text_file(data / "chat-templates" / file);
      for (const auto& [conversation, ids_wanted] : wanted.items()) {
        INFO(name << ", " << file << ", " << conversation);
        Ordered variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_generation_prompt", true}};
        variables.update(conversations[conversation]);
        const ChatResult result = render_chat(source, variables.dump(), false);
        REQUIRE(result.ok());
        const std::vector<TokenId> ids = ids_of(*tokenizer, result);
        CHECK(ids.size() == ids_wanted[0].get<std::size_t>());
        CHECK(digest(ids) == ids_wanted[1].get<std::string>());
        ++checked;
      }
    }
  }
  CHECK(checked == 336);
}
