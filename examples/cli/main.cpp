// main.cpp: the `qinfer` program, a host of the C API like any other. It wires the commands to the command line and
// turns every failure into one line on stderr and an exit status: 0 done, 1 failed, 2 usage. Results go to stdout,
// everything else to stderr.
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "options.h"
#include "support.h"

namespace {

int parse_and_run(int argc, char** argv) {
  CLI::App app("Runs language models on CPUs.", "qinfer");
  cli::Command chosen;
  cli::add_info(app, chosen);
  cli::add_plan(app, chosen);
  cli::add_tokenize(app, chosen);
  cli::add_render(app, chosen);
  cli::add_generate(app, chosen);
  cli::add_chat(app, chosen);
  cli::add_logits(app, chosen);
  cli::add_embed(app, chosen);
  cli::add_pack(app, chosen);
  cli::add_bench(app, chosen);
  app.set_version_flag("--version", std::string(qi::build_info()));
  app.require_subcommand(1);
  app.footer("Exit status: 0 done, 1 failed (one line says why), 2 usage.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help or --version
    app.exit(asked, std::cout, std::cerr);
    std::cout.flush();
    return std::cout ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    throw cli::UsageError(error.what());
  }
  const int status = chosen();
  cli::flush_output();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const cli::UsageError& error) {
    cli::report(std::string(error.what()) + " (see qinfer --help)");
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
