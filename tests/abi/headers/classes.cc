// qinfer.hpp and the headers over it as a C++ host sees them, with templates that are used.
#include <qinfer/qinfer_chat.hpp>
#include <qinfer/qinfer_grammar.hpp>

std::string talk(const qi::Model& model);
std::string talk(const qi::Model& model) {
  qi::ChatOptions options;
  options.system = "Be brief.";
  options.tools.push_back({"now", "The time", ""});
  qi::Chat chat(model, options);
  chat.add({"user", "Hi"});
  chat.add({"assistant", "Hi!"});
  chat.set_variable("enable_thinking", false);
  chat.set_variable("effort", 2);
  chat.set_variable("mood", "good");
  const qi::Grammar grammar = qi::Grammar::regex(model, "yes|no");
  qi::TurnOptions turn;
  turn.constraint = &grammar;
  std::string text = chat.send("Is 7 odd?", turn);
  for (const qi::Part& part : chat.stream("Why?")) text += part.text;
  for (const qi::ToolCall& call : chat.calls()) chat.add_result(call, "noon");
  return text + chat.reply([](const qi::Part&) { return true; });
}

void draw(qi::Session& session, const qi::Grammar& grammar);
void draw(qi::Session& session, const qi::Grammar& grammar) {
  qi::GrammarMatcher matcher(grammar);
  matcher.clone().set_on(session);
  matcher.accept(session.sample());
  if (matcher.mask().empty()) matcher.rewind(1);
  matcher.check();
}
