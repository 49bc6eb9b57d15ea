// main.cpp: the `qinfer` program, a host of the C API like any other. It wires the commands to the command line and
// turns every failure into one line on stderr and an exit status: 0 done, 1 failed, 2 usage. Results go to stdout,
// everything else to stderr.
#include <exception>
#include <new>
#include <string>

#include "options.h"
#include "support.h"

namespace {

int parse_and_run(int argc, char** argv) {
  cli::Commands commands("qinfer", "Runs language models on CPUs.");
  cli::add_info(commands);
  cli::add_plan(commands);
  cli::add_tokenize(commands);
  cli::add_render(commands);
  cli::add_generate(commands);
  cli::add_chat(commands);
  cli::add_logits(commands);
  cli::add_embed(commands);
  cli::add_rerank(commands);
  cli::add_pack(commands);
  cli::add_pull(commands);
  cli::add_list(commands);
  cli::add_serve(commands);
  cli::add_bench(commands);
  commands.set_version(std::string(qi::build_info()));
  commands.set_footer("Exit status: 0 done, 1 failed (one line says why), 2 usage.");
  const int status = commands.run(argc, argv);
  cli::flush_output();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const cli::UsageError& error) {
    cli::report(error.what());
    return 2;
  } catch (const qi::Error& error) {
    cli::report(std::string(error.what()) + " (" + error.status_name() + ")");
  } catch (const std::bad_alloc&) {
    cli::report("out of memory");
  } catch (const std::exception& error) {
    cli::report(error.what());
  }
  return 1;
}
