// render.cpp: `qinfer render`: what a conversation becomes for a model, as text or as token ids. Loads no weights.
#include <memory>
#include <string>

#include "options.h"
#include "support.h"

namespace cli {
namespace {

struct RenderArgs {
  std::string model, conversation, template_file, template_name, now;
  bool ids = false, generation_prompt = false;
};

int run_render(const RenderArgs& args) {
  const std::string conversation = read_file(args.conversation);
  const std::string text = args.template_file.empty() ? "" : read_file(args.template_file);
  auto options = qi::options<qinfer_chat_options>();
  if (args.generation_prompt) options.flags |= QINFER_CHAT_GENERATION_PROMPT;
  if (!args.template_file.empty()) options.template_text = text.c_str();
  if (!args.template_name.empty()) options.template_name = args.template_name.c_str();
  if (!args.now.empty()) options.now = args.now.c_str();

  qi::Runtime runtime(runtime_options({}));
  auto load = qi::options<qinfer_load_options>();
  load.flags = QINFER_LOAD_NO_WEIGHTS;
  const qi::Model model = load_model(runtime, args.model, load);
  if (text.empty()) need_template(model);
  print(args.ids ? join_ids(model.tokenize_chat(conversation, options)) + "\n"
                 : model.render_chat(conversation, options));
  return 0;
}

}  // namespace

void add_render(Commands& commands) {
  auto args = std::make_shared<RenderArgs>();
  Options options = commands.add("render", "Print what a chat template makes of a conversation");
  options.set_footer("Example:\n  qinfer render model.gguf conversation.json --generation-prompt");
  add_model_arg(options, args->model);
  options
      .add("CONVERSATION", args->conversation,
           "A JSON file: an object with messages, tools and any variable of the template; - is standard input")
      .required()
      .type_name("");
  const Option file =
      options.add("--template", args->template_file, "A template in place of the model's").type_name("FILE");
  options.add("--name", args->template_name, "The model's template of that name").type_name("NAME").excludes(file);
  options.add("--now", args->now, "What templates take for today, e.g. 2026-11-22 (default: the clock, in UTC)")
      .type_name("DATE");
  options.flag("--generation-prompt", args->generation_prompt, "Begin the assistant's answer");
  options.flag("--ids", args->ids, "Print the token ids");
  options.run([args] { return run_render(*args); });
}

}  // namespace cli
