// options.h: command-line options that several commands share, and validators that say in one line what is wrong.
#pragma once

#include <qinfer/qinfer.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace cli {

/// What the command line chose; returns the exit status. Run after parsing, so that errors in it are not usage errors.
using Command = std::function<int()>;

// One per command: adds the subcommand and, when it is the one given, sets `chosen`.
void add_info(CLI::App& app, Command& chosen);
void add_plan(CLI::App& app, Command& chosen);
void add_tokenize(CLI::App& app, Command& chosen);
void add_render(CLI::App& app, Command& chosen);
void add_generate(CLI::App& app, Command& chosen);
void add_chat(CLI::App& app, Command& chosen);
void add_logits(CLI::App& app, Command& chosen);
void add_embed(CLI::App& app, Command& chosen);
void add_pack(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);

/// Digits only and in [lowest, highest]: CLI11 alone reads "-1" as 18446744073709551615 and "010" as 8.
CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest);
/// A finite number in [lowest, highest].
CLI::Validator real_number(double lowest, double highest);

struct RuntimeArgs {
  std::uint32_t threads = 0;
  std::string cpu_target;
  bool exact = false;
};
void add_runtime_args(CLI::App& command, RuntimeArgs& args);
/// Points into args. Warnings of the library go to stderr.
qinfer_runtime_options runtime_options(const RuntimeArgs& args);

/// Adds --kv; kv_type() turns its value, "" included, into QINFER_KV_*.
void add_kv_arg(CLI::App& command, std::string& kv);
int32_t kv_type(const std::string& kv);

/// Temperature, filters, penalty and seed.
void add_sampler_args(CLI::App& command, qinfer_sampler_options& sampler);

/// MODEL: a path, or the id of a model that the local Hugging Face cache has, which becomes its path (hub.h).
void add_model_arg(CLI::App& command, std::string& model);

}  // namespace cli
