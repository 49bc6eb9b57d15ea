// options.h: the commands, and options that several of them share.
#pragma once

#include <qinfer/qinfer.h>

#include <cstdint>
#include <string>

#include "command_line.h"

namespace cli {

// One per command: adds it with its options.
void add_info(Commands& commands);
void add_plan(Commands& commands);
void add_tokenize(Commands& commands);
void add_render(Commands& commands);
void add_generate(Commands& commands);
void add_chat(Commands& commands);
void add_logits(Commands& commands);
void add_embed(Commands& commands);
void add_rerank(Commands& commands);
void add_pack(Commands& commands);
void add_pull(Commands& commands);
void add_list(Commands& commands);
void add_serve(Commands& commands);
void add_bench(Commands& commands);

struct RuntimeArgs {
  std::uint32_t threads = 0;
  std::string cpu_target;
  bool exact = false;
};
void add_runtime_args(Options& options, RuntimeArgs& args);
/// Points into args. Warnings of the library go to stderr.
qinfer_runtime_options runtime_options(const RuntimeArgs& args);

/// Adds --kv; kv_type() turns its value, "" included, into QINFER_KV_*.
void add_kv_arg(Options& options, std::string& kv);
int32_t kv_type(const std::string& kv);

/// Adds --draft: qinfer_session_options.max_draft.
void add_draft_arg(Options& options, std::uint32_t& max_draft);

/// Temperature, filters, penalty and seed.
void add_sampler_args(Options& options, qinfer_sampler_options& sampler);

/// MODEL: a path, or the id of a model that the local Hugging Face cache has, which becomes its path (hub.h).
/// `help`: in place of what the help says of it; `find`: in place of find_model().
void add_model_arg(Options& options, std::string& model, const char* help = nullptr,
                   std::string (*find)(const std::string&) = nullptr);

}  // namespace cli
