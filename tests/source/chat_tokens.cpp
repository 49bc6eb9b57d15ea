// Which tokens end a turn: what the chat template writes after an answer, for templates of all shapes, and that no
// other token changes its kind.
#include "source/chat_tokens.h"

#include <set>

#include "support/skip.h"
#include "support/test_data.h"
#include "support/tokenizers.h"
#include "text/tables.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

/// A tokenizer that has `words` as ordinary tokens from id 300 on.
std::unique_ptr<Tokenizer> tokenizer_with(const std::vector<std::string>& words) {
  Json json = small_tokenizer();
  for (std::size_t i = 0; i < words.size(); ++i) json["model"]["vocab"][words[i]] = 300 + i;
  return load_tokenizer_text(json.dump());
}

struct Found {
  std::set<std::string> ends, control;
  std::vector<std::string> notes;
};

/// What the rule makes of a template where all `words` are tokens, none of them special. The tokenizer says that "<s>"
/// begins and "</s>" ends texts.
Found find_in(const std::string& text, const std::vector<std::string>& words, const std::string& eos = "</s>") {
  const auto tokenizer = tokenizer_with(words);
  model::ModelSpec spec;
  spec.n_vocab = tokenizer->size();
  source::ChatTemplates templates;
  templates.list.push_back({"default", text});
  templates.has_texts = true;
  templates.bos_text = "<s>";
  templates.eos_text = eos;
  Notes notes;
  REQUIRE(source::find_end_tokens(templates, *tokenizer, spec, notes, {}).ok());
  Found found;
  for (const TokenId id : spec.end_tokens) found.ends.insert(std::string(tokenizer->content(id)));
  for (const std::string& word : words) {
    const TokenId id = *tokenizer->find(word);
    const bool is_control = (tokenizer->tables().vocabulary.flags(id) & text::kTokenControl) != 0;
    if (is_control) found.control.insert(word);
    const bool is_whole = encode(*tokenizer, word) == std::vector<TokenId>{id};
    CHECK(is_whole == is_control);
  }
  found.notes = notes.take();
  return found;
}

/// All <...> and [...] of a template.
std::vector<std::string> literals_of(const std::string& text) {
  std::set<std::string> found;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char close = text[i] == '<' ? '>' : text[i] == '[' ? ']' : '\0';
    const std::size_t end = close == '\0' ? text.npos : text.find(close, i);
    if (end == text.npos || end - i > 60 || end - i < 2) continue;
    const std::string literal = text.substr(i, end + 1 - i);
    if (literal.find_first_of(" \n\t'\"") == literal.npos) found.insert(literal);
  }
  for (const char* special : {"<s>", "</s>", "<unk>"}) found.erase(special);
  return {found.begin(), found.end()};
}

const std::string kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

TEST_CASE("the token that a template writes after an answer ends a turn", "[source][chat]") {
  struct Case {
    std::string text;
    std::set<std::string> ends, control;
  };
  using Names = std::set<std::string>;
  const std::string loop = "{% for m in messages %}", end = "{% endfor %}";
  const auto turn = [&](const std::string& of_user, const std::string& of_model) {
    return loop + "{% if m.role == 'user' %}" + of_user + "{% else %}" + of_model + "{% endif %}" + end;
  };
  const Case c = GENERATE_COPY(values<Case>({
      {kChatMl, {"<|im_end|>"}, {"<|im_end|>", "<|im_start|>"}},
      // The last answer ends otherwise than those before it.
      {loop +
           "<|start|>{{ m.role }}<|message|>{{ m.content }}{% if loop.last %}<|return|>{% else %}<|end|>{% endif %}" +
           end,
       {"<|return|>"},
       {"<|return|>"}},
      {turn("[INST] {{ m.content }} [/INST]", " {{ m.content }} [EOT]"), {"[EOT]"}, {"[EOT]", "[INST]"}},
      // What ends all of the text is no part of the turn.
      {loop + "<|{{ m.role }}|>{{ m.content }}<|stop|>" + end + "{{ eos_token }}", {"<|stop|>"}, {"<|stop|>"}},
      // eos_token itself, and a content that is part of the literal.
      {loop + "{{ m.content }}{{ eos_token }}" + end, {}, {}},
      {loop + "{{ m.content }}<{{ m.role }}>" + end, Names{}, Names{}},
      // A part of the turn is closed, then the turn.
      {turn("<|u|>{{ m.content }}<|e|>", "<|a|><answer>{{ m.content }}</answer><|e|>"), {}, {}},
      {turn("<|u|>{{ m.content }}<|e|>", "<|a|>{{ m.content }}<|more|>{{ m.role }}<|e|>"), {}, {}},
      {"<|u|>System.<|e|>" + turn("<|u|>{{ m.content }}<|e|>", "<|a|>{{ m.content }}<|stop|><|e|>"), {}, {}},
      // Nothing to be found.
      {loop + "{{ m.role }}: {{ m.content }}\n" + end, {}, {}},
      {loop + "{{ m.content | upper }}<|im_end|>" + end, {}, {}},
      {"{{ raise_exception('no') }}<|im_end|>", {}, {}},
      {"{% for", {}, {}},
      {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}" + kChatMl, {}, {}},
  }));
  INFO(c.text);
  const Found found =
      find_in(c.text, {"<|im_end|>", "<|im_start|>", "<|return|>", "<|end|>", "<|start|>", "<|message|>", "[EOT]",
                       "[INST]", "[/INST]", "<|stop|>", "<|u|>", "<|a|>", "<|e|>", "<|more|>", "<answer>", "</answer>",
                       "<|user|>", "<|assistant|>", "<assistant>"});
  std::set<std::string> ends = c.ends;
  ends.insert("</s>");
  CHECK(found.ends == ends);
  CHECK(found.control == c.control);
  CHECK(found.notes.size() == c.control.size());
}

TEST_CASE("a token that is there already is an end token without becoming another kind", "[source][chat]") {
  Json json = small_tokenizer();
  for (const char* name : {"<|im_start|>", "<|im_end|>", "<|other|>"}) {
    Json token = json["added_tokens"][0];
    token["content"] = name;
    token["id"] = 270 + json["added_tokens"].size();
    json["added_tokens"].push_back(token);
  }
  const auto tokenizer = load_tokenizer_text(json.dump());
  model::ModelSpec spec;
  spec.n_vocab = 300;
  source::ChatTemplates templates;
  std::string text = kChatMl;
  text.replace(text.find("<|im_end|>"), 10, "<|other|>");
  templates.list.push_back({"default", text});
  Notes notes;
  REQUIRE(source::find_end_tokens(templates, *tokenizer, spec, notes, {}).ok());
  // One by its name, one by the template.
  CHECK(spec.end_tokens == std::vector<TokenId>{*tokenizer->find("<|im_end|>"), *tokenizer->find("<|other|>")});
  const std::vector<std::string> lines = notes.take();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("\"<|other|>\" ends a turn in the chat template: it is taken for an end token") !=
        std::string::npos);
}

TEST_CASE("a vocabulary with an empty token has no end token of it", "[source][chat]") {
  Json json = small_tokenizer();
  json["model"]["vocab"][""] = 300;
  const auto tokenizer = load_tokenizer_text(json.dump());
  model::ModelSpec spec;
  spec.n_vocab = tokenizer->size();
  source::ChatTemplates templates;
  templates.list.push_back({"default", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"});
  Notes notes;
  REQUIRE(source::find_end_tokens(templates, *tokenizer, spec, notes, {}).ok());
  CHECK(spec.end_tokens.empty());
  CHECK(notes.take().empty());
}

TEST_CASE("real templates: what ends a turn and what begins one change their kind, and nothing else",
          "[source][chat]") {
  SKIP_UNLESS_TEST_DATA("chat-templates/Qwen-Qwen3-0.6B.jinja");
  // By hand from the templates: what ends the last answer, and what begins the next turns. Of templates that are not in
  // this table, in a test data folder with more of them, only the number of tokens is checked.
  const std::map<std::string, std::set<std::string>> expected = {
      {"CohereForAI-c4ai-command-r-plus-tool_use.jinja", {"<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>"}},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", {"<|im_end|>", "<|im_start|>"}},
      {"Qwen-Qwen2.5-7B-Instruct.jinja", {"<|im_end|>", "<|im_start|>"}},
      {"Qwen-Qwen3-0.6B.jinja", {"<|im_end|>", "<|im_start|>"}},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
       {"<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "<\uFF5CUser\uFF5C>", "<\uFF5CAssistant\uFF5C>"}},
      {"fireworks-ai-llama-3-firefunction-v2.jinja", {"<|eot_id|>", "<|start_header_id|>"}},
      {"llama-cpp-deepseek-r1.jinja",
       {"<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "<\uFF5CUser\uFF5C>", "<\uFF5CAssistant\uFF5C>"}},
      {"meetkai-functionary-medium-v3.2.jinja", {"<|eot_id|>", "<|start_header_id|>"}},
      {"meta-llama-Llama-3.2-3B-Instruct.jinja", {"<|eot_id|>", "<|start_header_id|>"}},
      {"microsoft-Phi-3.5-mini-instruct.jinja", {"<|end|>", "<|user|>"}},
      {"ollama-qwen38.jinja", {"<|im_end|>", "<|im_start|>"}},
  };
  std::size_t known = 0;
  const auto folder = find_test_data("chat-templates/Qwen-Qwen3-0.6B.jinja").parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string text = read_text_file(entry.path());
    const Found found = find_in(text, literals_of(text));
    INFO(entry.path().filename());
    CAPTURE(found.control);
    CHECK(found.control.size() <= 3);
    const auto row = expected.find(entry.path().filename().string());
    if (row == expected.end()) continue;
    ++known;
    CHECK(found.control == row->second);
  }
  CHECK(known == expected.size());
}
