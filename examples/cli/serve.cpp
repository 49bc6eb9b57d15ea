// serve.cpp: `qinfer serve`, which becomes the `qinfer-server` program, so that the command line tool needs none of
// what a server is made of.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "options.h"
#include "support.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

/// Beside this program, as it is installed, or beside its folder, as it is built; otherwise on PATH.
std::string find_server() {
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& path : {own.parent_path() / "qinfer-server", own.parent_path() / "../../server/qinfer-server"})
    if (fs::exists(path, ignored)) return path;
  return "qinfer-server";
}

[[noreturn]] void become_server(const std::vector<std::string>& arguments) {
  const std::string program = find_server();
  std::vector<char*> argv = {const_cast<char*>("qinfer-server")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(program.c_str(), argv.data());
  throw Failure("qinfer-server cannot be started: " + std::string(std::strerror(errno)) +
                "; it is a program of its own, of the package qinfer-server");
}

}  // namespace

void add_serve(Commands& commands) {
  Options options =
      commands.add("serve", "Answer OpenAI's interface over HTTP: MODEL and options as qinfer-server --help says");
  options.run_with_rest("Example:\n  qinfer serve model.gguf --port 8080",
                        [](const std::vector<std::string>& words) -> int { become_server(words); });
}

}  // namespace cli
