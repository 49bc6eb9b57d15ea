// grammar.cpp - text that fulfils a JSON schema, a regular expression or a Lark grammar, from C++, and a
// schema that is refused with its reason. Linked with libqinfer_grammar and libqinfer.
// ./grammar [MODEL_DIRECTORY]
#include <qinfer/qinfer_grammar.hpp>

#include <iostream>
#include <string>

namespace {

constexpr const char* kSchema = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
  "age": {"enum": [4, 5]}}, "required": ["name", "age"], "additionalProperties": false})";

std::string draw(const qi::Session& prompt, const qi::Grammar& grammar) {
  qi::Session session = prompt.fork();  // the prompt is evaluated once
  grammar.begin(session);
  qi::GenerateOptions request;
  request.max_tokens = 60;
  return session.generate_text(request);
}

void run(const std::string& path) {
  const qi::Model model = qi::Model::load(path);
  qi::KvCache cache(model);
  qi::Session prompt(cache);
  prompt.append(model.tokenize("Lily said: ", QINFER_TEXT_ADD_SPECIAL));
  prompt.eval();
  const qi::GrammarVocab vocab(model);  // made once for several grammars
  std::cout << draw(prompt, qi::Grammar::json_schema(vocab, kSchema)) << "\n"
            << draw(prompt, qi::Grammar::regex(vocab, "(yes|no), [a-z]{3,8}!")) << "\n"
            << draw(prompt, qi::Grammar::lark(vocab, "start: \"I am \" AGE \".\"\nAGE: /[1-9]/")) << "\n";
  try {
    qi::Grammar::json_schema(vocab, R"({"type": "array", "uniqueItems": true})");
  } catch (const qi::Error& error) {
    std::cout << error.status_name() << ": " << error.what() << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "examples/models/tiny-stories");
  } catch (const qi::Error& error) {
    std::cerr << error.status_name() << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}
