// main.cpp: the `qinfer-server` program: OpenAI's interface over HTTP. One line on stderr says where it listens, one
// why it has failed. Exit status: 0 it was told to end, 1 failed, 2 usage.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>

#include "log.h"
#include "server.h"

namespace {

/// An empty name, such as a variable that is not set, would mean that there are none.
std::string is_named(const std::string& path) { return path.empty() ? "is empty" : ""; }

void add_engine_options(CLI::App& app, server::EngineOptions& engine) {
  app.add_option("--threads", engine.threads, "Compute threads (default: physical cores)");
  app.add_option("--cache-bytes", engine.cache_bytes,
                 "For keys and values (default: four whole contexts, at most half of the free memory)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--context", engine.context,
                 "Tokens of a request with its answer at most (default: as many as the model takes)");
  app.add_option("--max-batch-tokens", engine.max_batch_tokens,
                 "Tokens in one pass over the weights (default 512, of an encoder its longest text)");
  app.add_option("--max-running", engine.max_running, "Choices that are drawn together")->capture_default_str();
  app.add_option("--max-waiting", engine.max_waiting, "Choices that wait: more are answered with 429")
      ->capture_default_str();
  app.add_option("--step-ms", engine.step_ms, "What an evaluation should take at most while tokens are drawn")
      ->capture_default_str();
  app.add_option("--park", engine.park_path, "Directory in which requests are parked where the cache has no room")
      ->type_name("DIR")
      ->check(is_named);
  app.add_option("--keep", engine.keep_path, "Directory in which conversations are kept, to go on after a restart too")
      ->type_name("DIR")
      ->check(is_named);
  app.add_option("--keep-bytes", engine.keep_bytes, "Of kept conversations; those used longest ago are removed")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
}

void add_options(CLI::App& app, server::ServerOptions& options, server::LogLevel& log) {
  app.add_option("model", options.engine.model_path, "Directory, GGUF file or packed model")->required();
  app.add_option("--host", options.host, "Address to listen at")->capture_default_str();
  app.add_option("--port", options.port, "Port to listen at; 0: any")->capture_default_str();
  app.add_option("--keys", options.keys_path, "File of API keys, one a line; SIGHUP reads it again")
      ->type_name("FILE")
      ->check(is_named);
  app.add_option("--allowed-host", options.allowed_hosts,
                 "Name under which clients reach a server at a loopback address without keys, besides localhost")
      ->type_name("NAME ...")
      ->expected(1)
      ->take_all();
  app.add_option("--allow-origin", options.allowed_origins,
                 "Origin of pages that may ask too (CORS), such as https://example.com; *: all")
      ->type_name("ORIGIN ...")
      ->expected(1)
      ->take_all();
  CLI::Option* cert = app.add_option("--tls-cert", options.tls_cert_path,
                                     "Certificate (PEM), for HTTPS; SIGHUP reads it again, with its key")
                          ->type_name("FILE")
                          ->check(is_named);
  CLI::Option* key =
      app.add_option("--tls-key", options.tls_key_path, "Its private key (PEM)")->type_name("FILE")->check(is_named);
  cert->needs(key);
  key->needs(cert);
  app.add_option("--max-connections", options.most_connections, "Open connections at most")->capture_default_str();
  app.add_option("--max-body-bytes", options.limits.head.most_body_bytes, "Of a request")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--bodies-bytes", options.bodies_bytes,
                 "Of all requests that are read or prepared; more are answered with 503")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--head-s", options.limits.head_s, "Seconds in which the head of a request must come")
      ->capture_default_str();
  app.add_option("--body-s", options.limits.body_s, "Seconds in which its body must come")->capture_default_str();
  app.add_option("--keep-alive-s", options.keep_alive_s, "Seconds after which a stream without news has a comment")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--slow-s", options.slow_s,
                 "Seconds that a client which does not take its stream has while others wait")
      ->capture_default_str();
  app.add_option("--drain-s", options.drain_s, "Seconds that requests have after SIGTERM")->capture_default_str();
  app.add_option("--rerank-template", options.rerank_template,
                 "How /v1/rerank writes a pair of texts, where the model's files do not say it")
      ->check(CLI::IsMember({"qwen3-reranker"}));
  const std::map<std::string, server::LogLevel> levels = {{"off", server::LogLevel::off},
                                                          {"error", server::LogLevel::error},
                                                          {"info", server::LogLevel::info},
                                                          {"debug", server::LogLevel::debug}};
  app.add_option("--log", log, "Lines of JSON on stderr: off, error, info (one for each request) or debug (all)")
      ->transform(CLI::CheckedTransformer(levels))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->default_str("error");
  app.add_flag("--log-contents", options.limits.has_contents, "With what is asked and answered, in part");
  app.add_flag("!--no-page", options.has_page, "Without the chat page at /");
  add_engine_options(app, options.engine);
}

/// Each connection is a file.
void raise_file_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Large bodies and answers are pages of their own, which the system has back at once; glibc would learn from the first
/// ones to keep them.
void keep_no_large_pieces() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  server::ServerOptions options;
  CLI::App app("OpenAI's interface for one model, over HTTP.", "qinfer-server");
  server::LogLevel level = server::LogLevel::error;
  add_options(app, options, level);
  app.set_version_flag("--version", qinfer_version_string());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  raise_file_limit();
  keep_no_large_pieces();
  if (const char* notify = std::getenv("NOTIFY_SOCKET")) options.notify_socket = notify;
  server::Log log(level);
  options.log = &log;
  try {
    log.write(server::LogLevel::info, "start", {{"version", qinfer_version_string()}, {"pid", getpid()}});
    server::Server server(options);
    if (log.writes(server::LogLevel::info)) {
      log.write(server::LogLevel::info, "ready", {{"url", server.url()}, {"model", server.model_name()}});
    } else {
      std::fprintf(stderr, "qinfer-server: %s\n", server.url().c_str());
    }
    server.run();
    log.write(server::LogLevel::info, "end", {{"status", 0}});
    return 0;
  } catch (const std::exception& failed) {
    if (log.writes(server::LogLevel::info)) {
      log.write(server::LogLevel::error, "end", {{"status", 1}, {"message", failed.what()}});
    } else {
      std::fprintf(stderr, "qinfer-server: %s\n", failed.what());
    }
    return 1;
  }
}
