// pack.cpp: `qinfer pack` writes a model in the form that its kernel set wants, one file to be loaded by mapping.
#include <memory>
#include <qinfer/qinfer.hpp>

#include "options.h"
#include "support.h"

namespace cli {
namespace {

struct PackArgs {
  std::string model, out, weight_format;
  RuntimeArgs runtime;
};

int run_pack(const PackArgs& args) {
  qi::Runtime runtime(runtime_options(args.runtime));
  auto load = qi::options<qinfer_load_options>();
  load.weight_format = args.weight_format.empty() ? nullptr : args.weight_format.c_str();
  load.max_batch_tokens = 1;  // nothing is evaluated
  qi::pack(runtime, args.model, args.out, load);
  report("packed for kernel set " + std::string(runtime.info().target) + " into " + args.out);
  return 0;
}

}  // namespace

void add_pack(CLI::App& app, Command& chosen) {
  auto args = std::make_shared<PackArgs>();
  CLI::App* command = app.add_subcommand("pack", "Write a model as one file that loads by mapping");
  add_model_arg(*command, args->model);
  command->add_option("OUT", args->out, "The file to write; other commands take it as MODEL")
      ->required()
      ->type_name("");
  command->add_option("--weights", args->weight_format, "Type of the weights (default: what the kernel set wants)")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->type_name("TYPE");
  add_runtime_args(*command, args->runtime);
  command->callback([args, &chosen] { chosen = [args] { return run_pack(*args); }; });
}

}  // namespace cli
