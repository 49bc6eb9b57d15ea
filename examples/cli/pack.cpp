// pack.cpp: `qinfer pack` writes a model in the form that its kernel set wants, one file to be loaded by mapping, or as
// a GGUF file; quantised on the way if it is asked to.
#include <memory>
#include <qinfer/qinfer.hpp>

#include "options.h"
#include "support.h"

namespace cli {
namespace {

struct PackArgs {
  std::string model, out, weight_format;
  bool gguf = false;
  RuntimeArgs runtime;
};

/// What the library logs of each matrix that it quantises is the report; the rest that it says at this level is not.
void print_quantised(int32_t level, const char* line, size_t line_len, void*) {
  try {
    const std::string_view text(line, line_len);
    if (level < QINFER_LOG_INFO) report(text);
    if (text.starts_with("quantised ")) print(std::string(text) + "\n");
  } catch (const std::exception&) {  // C code called; the failure shows when what was printed is flushed
  }
}

int run_pack(const PackArgs& args) {
  qinfer_runtime_options options = runtime_options(args.runtime);
  options.log = print_quantised;
  options.log_level = QINFER_LOG_INFO;
  qi::Runtime runtime(options);
  auto load = qi::options<qinfer_load_options>();
  load.weight_format = args.weight_format.empty() ? nullptr : args.weight_format.c_str();
  load.max_batch_tokens = 1;  // nothing is evaluated
  if (args.gguf) {
    qi::export_gguf(runtime, args.model, args.out, load);
    report("written as GGUF into " + args.out);
    return 0;
  }
  qi::pack(runtime, args.model, args.out, load);
  auto look = qi::options<qinfer_load_options>();
  look.flags = QINFER_LOAD_NO_WEIGHTS;
  const qi::Model packed = qi::Model::load(runtime, args.out, look);
  report(std::string("packed for kernel set ") + packed.info().kernel_set + " into " + args.out);
  return 0;
}

}  // namespace

void add_pack(Commands& commands) {
  auto args = std::make_shared<PackArgs>();
  Options options = commands.add("pack", "Write a model as one file that loads by mapping");
  options.set_footer("Example:\n  qinfer pack Qwen3-0.6B qwen3.packed --weights q4_k_m");
  add_model_arg(options, args->model);
  options.add("OUT", args->out, "The file to write; other commands take it as MODEL").required().type_name("");
  options
      .add("--weights", args->weight_format,
           "Type of the weights (default: what the kernel set wants). The last three quantise a checkpoint and "
           "print the error of each matrix")
      .one_of({"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k_m"})
      .type_name("TYPE");
  options.flag("--gguf", args->gguf,
               "Write a GGUF file, which llama.cpp reads too, in place of a packed one: weights as the model has "
               "them, or with --weights q8_0, q4_0 or q4_k_m quantised");
  add_runtime_args(options, args->runtime);
  options.run([args] { return run_pack(*args); });
}

}  // namespace cli
