// chat.cpp - a conversation in C++: replies come in parts, a tool that the model calls is answered, each turn evaluates
// what is new, and a reply that is left stays as far as it came.
// ./chat [MODEL_DIRECTORY [MESSAGE...]]
#include <qinfer/qinfer_chat.hpp>

#include <iostream>
#include <string>
#include <vector>

namespace {

bool show(const qi::Part& part) {
  if (part.kind == QINFER_PART_CONTENT) std::cout << part.text << std::flush;
  if (part.kind == QINFER_PART_CALL) std::cout << "[call of " << part.name << " " << part.text << "]\n";
  return true;  // false: leave it here
}

std::string weather_in(const std::string&) { return R"({"condition": "windy", "temperature": 17})"; }

void talk(const std::string& path, const std::vector<std::string>& messages) {
  qi::ChatOptions options;
  options.tools.push_back(
      {"get_weather", "Get the current weather in a city",
       R"({"type": "object", "properties": {"city": {"type": "string", "description": "The city"}}, "required": ["city"]})"});
  qi::Chat chat(qi::Model::load(path), options);
  for (const std::string& message : messages) {
    chat.send(message, show);
    while (!chat.calls().empty()) {
      for (const qi::ToolCall& call : chat.calls()) chat.add_result(call, weather_in(call.arguments));
      chat.reply(show);
    }
    std::cout << "\n";
  }
  for (const qi::Part& part : chat.stream("What is the capital of France?")) {
    show(part);
    if (part.kind == QINFER_PART_CONTENT) break;
  }
  std::cout << "... (" << chat.messages().size() << " messages, the last is \"" << chat.messages().back().content
            << "\")\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> messages(argv + (argc > 2 ? 2 : argc), argv + argc);
  if (messages.empty()) messages = {"Hello!", "What is the weather in Lisbon?"};
  try {
    talk(argc > 1 ? argv[1] : "examples/models/tiny-chat", messages);
  } catch (const qi::Error& error) {
    std::cerr << error.status_name() << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}
