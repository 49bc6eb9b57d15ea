// chat.cpp: `qinfer chat`: options of a conversation on a terminal, or of one message and its answer where input or
// output is none.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "chat_session.h"
#include "http.h"
#include "hub.h"
#include "hub_pull.h"
#include "interrupt.h"
#include "options.h"
#include "sampling.h"
#include "support.h"
#include "word_wrap.h"

namespace cli {
namespace {

struct ChatArgs {
  std::string model, message, template_file, tools_file, variables, overflow = "stop";
  bool no_thinking = false, no_history = false, no_wrap = false, greedy = false;
  RuntimeArgs runtime;
  ConversationOptions conversation;
  ChatView view;
};

Json parse_json(const std::string& text, const std::string& what) {
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) throw Failure(what + " is not JSON");
  return parsed;
}

void read_files(ChatArgs& args) {
  ConversationOptions& options = args.conversation;
  if (!args.template_file.empty()) options.template_text = read_file(args.template_file);
  if (!args.tools_file.empty()) {
    options.tools = parse_json(read_file(args.tools_file), args.tools_file);
    if (!options.tools.is_array()) throw Failure(args.tools_file + ": expected an array of tools");
  }
  if (!args.variables.empty()) {
    options.variables = parse_json(args.variables, "--variables");
    if (!options.variables.is_object()) throw Failure("--variables: expected a JSON object");
  }
  if (args.no_thinking) options.variables["enable_thinking"] = false;
  options.no_reasoning = args.no_thinking;
}

/// What is asked where there is no conversation on a terminal: the message, and what is piped in after it.
std::string whole_message(const ChatArgs& args) {
  std::string text = args.message;
  if (isatty(STDIN_FILENO) == 1) return text;
  std::string piped = read_file("-");
  while (piped.ends_with('\n')) piped.pop_back();
  if (!text.empty() && !piped.empty()) text += "\n\n";
  return text + piped;
}

/// What no option says is as the model wants it.
void add_to_sampler(const Sampling& model, const Options& given, bool is_greedy, ConversationOptions& conversation) {
  qinfer_sampler_options& sampler = conversation.sampler;
  const auto add = [&](const char* option, auto member) {
    if (!given.was_given(option)) sampler.*member = model.options.*member;
  };
  add("--temp", &qinfer_sampler_options::temperature);
  add("--top-k", &qinfer_sampler_options::top_k);
  add("--top-p", &qinfer_sampler_options::top_p);
  add("--min-p", &qinfer_sampler_options::min_p);
  add("--repeat-penalty", &qinfer_sampler_options::repeat_penalty);
  add("--typical", &qinfer_sampler_options::typical_p);
  add("--xtc-probability", &qinfer_sampler_options::xtc_probability);
  add("--xtc-threshold", &qinfer_sampler_options::xtc_threshold);
  add("--mirostat", &qinfer_sampler_options::mirostat);
  add("--mirostat-ent", &qinfer_sampler_options::mirostat_tau);
  add("--mirostat-lr", &qinfer_sampler_options::mirostat_eta);
  if (is_greedy) sampler.temperature = 0;
  if (!given.was_given("--samplers")) conversation.sampler_texts.steps = model.steps;
  if (!given.was_given("--repeat-last-n")) conversation.sampler_texts.penalty_window = model.penalty_window;
}

int run_chat(ChatArgs& args, const Options& given) {
  use_utf8();
  read_files(args);
  const bool on_terminal = isatty(STDIN_FILENO) == 1 && args.message.empty();
  const std::string message = on_terminal ? "" : whole_message(args);
  if (!on_terminal && message.empty()) throw Failure("there is no message: standard input is empty");
  qi::Cancel cancel;
  std::unique_ptr<InterruptGuard> guard = std::make_unique<InterruptGuard>(cancel);
  qi::Runtime runtime(runtime_options(args.runtime));
  auto load = qi::options<qinfer_load_options>();
  load.cancel = std::as_const(cancel).native();
  load.max_context = args.conversation.context_tokens;
  const qi::Model model = load_model(runtime, args.model, load);
  guard.reset();
  if (args.conversation.template_text.empty()) need_template(model);
  const Sampling sampling = sampling_of(model);
  add_to_sampler(sampling, given, args.greedy, args.conversation);
  args.conversation.drops_oldest = args.overflow == "drop-oldest";
  args.view.model = model_name(model.info(), args.model);
  args.view.keeps_history = !args.no_history;
  args.view.wraps = !args.no_wrap;
  ChatSession chat(model, args.conversation, sampling, args.view);
  if (on_terminal)
    chat.run();
  else
    chat.run_once(message);
  return 0;
}

/// A model that is not on this machine is offered to be downloaded, where there is a person to say yes.
std::string find_or_offer(const std::string& name) {
  try {
    return find_model(name);
  } catch (const NotInCache&) {
    if (!can_download() || isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) throw;
    std::fprintf(stderr, "%s is not on this machine. Download it from the Hugging Face hub? [y/N] ", name.c_str());
    std::string answer;
    std::getline(std::cin, answer);
    if (answer.empty() || (answer[0] != 'y' && answer[0] != 'Y')) throw;
    pull_model(name);
    return find_model(name);
  }
}

void add_conversation_args(Options& options, ChatArgs& args) {
  ConversationOptions& conversation = args.conversation;
  options.add("--system", conversation.system, "What the model is to be").type_name("TEXT");
  options.add("-n", conversation.max_tokens, "Tokens of an answer at most (default: until it ends)")
      .whole_number(0, 1u << 30)
      .type_name("N");
  options
      .add("--context", conversation.context_tokens,
           "Tokens that the conversation has room for (default 8192, or "
           "the model's context where that is less)")
      .whole_number(1, 1u << 30)
      .type_name("N");
  options
      .add("--overflow", args.overflow,
           "When the context is full: stop, or leave the oldest turns out of what the model sees (default: stop)")
      .one_of({"stop", "drop-oldest"})
      .type_name("WHAT");
  options
      .add("--resume", args.view.resume,
           "Go on with a conversation that /save kept under this name, or with a file (./x.json)")
      .type_name("NAME");
  options.add("--template", args.template_file, "A chat template in place of the model's").type_name("FILE");
  options.add("--tools", args.tools_file, "A JSON array of tools; you are asked for their results").type_name("FILE");
  options.add("--variables", args.variables, "More variables of the template, as a JSON object").type_name("JSON");
  options.add("--now", conversation.now, "What templates take for today, e.g. 2026-11-22 (default: the clock, in UTC)")
      .type_name("DATE");
  options.flag(
      "--no-think", args.no_thinking,
      "Ask for an answer without reasoning (enable_thinking is false); a grammar holds from the first token on");
  options.add("--max-think", conversation.max_reasoning, "Tokens of reasoning at most; then the answer begins")
      .whole_number(1, 1u << 30)
      .type_name("N");
  options.flag("--no-history", args.no_history, "Keep no file of the lines that were typed");
  options.flag("--no-wrap", args.no_wrap, "Leave lines to the terminal instead of breaking them between words");
}

}  // namespace

void add_chat(Commands& commands) {
  auto args = std::make_shared<ChatArgs>();
  Options options = commands.add("chat", "Talk with a model: on a terminal, or once with MESSAGE or a pipe");
  options.set_footer(
      "Commands:\n" + chat_help() +
      "\nExamples:\n  qinfer chat Qwen/Qwen3-0.6B\n  qinfer chat model.gguf \"Summarise this:\" < notes.txt");
  add_model_arg(options, args->model, nullptr, find_or_offer);
  options.add("MESSAGE", args->message, "Answer this, and what is piped in after it, instead of a conversation")
      .type_name("");
  add_conversation_args(options, *args);
  add_grammar_args(options, args->conversation.grammar);
  add_sampler_args(options, args->conversation.sampler);
  add_more_sampler_args(options, args->conversation.sampler, args->conversation.sampler_texts);
  options
      .flag("--greedy", args->greedy, "Always the likeliest token, in place of what the model's files say of sampling")
      .excludes("--temp");
  add_draft_arg(options, args->conversation.max_draft);
  add_kv_arg(options, args->conversation.kv);
  add_runtime_args(options, args->runtime);
  options.run([args, options] { return run_chat(*args, options); });
}

}  // namespace cli
