// server.h: the routes that answer what comes over a listener's connections. One thread has all sockets (run()), a
// second one prepares requests, the engine's draws tokens.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "access.h"
#include "bodies.h"
#include "connection.h"
#include "engine.h"
#include "listener.h"
#include "metrics.h"
#include "rerank.h"
#include "server/dialects/dialect.h"
#include "slow_clients.h"

namespace server {

struct ServerOptions : ListenOptions, AccessOptions {
  EngineOptions engine;
  std::uint64_t bodies_bytes = std::uint64_t{256} << 20;  ///< of all bodies that are read or prepared
  std::uint32_t slow_s = 10;        ///< that a client which does not take its stream has while others wait
  std::string rerank_template;      ///< where the model's files do not say how it scores; "": they do
  std::uint32_t keep_alive_s = 15;  ///< without anything to give, after which a stream has a comment
  bool has_page = true;             ///< GET / is a chat for people
};

class Server {
 public:
  explicit Server(const ServerOptions& options);
  /// Serves until a signal says not to, and then for as long as requests take, but no longer than drain_s.
  void run();
  std::string url() const { return listener_.url(); }
  const std::string& model_name() const { return engine_.name(); }

 private:
  using Connected = std::shared_ptr<Connection>;
  void reload();
  void route(const Connected& connection, Request request);
  bool is_open(const std::string& path) const;
  Screened screen(const Request& head, BodyBudget::Part& part);
  struct Answer;
  class Waiting;
  void complete(const Connected& connection, std::int32_t kind, Request request, std::shared_ptr<Dialect> dialect = {});
  void prepare(const Connected& connection, std::int32_t kind, Request request, const std::shared_ptr<Answer>& answer,
               const std::shared_ptr<Waiting>& waiting);
  void attempt(const Connected& connection, const std::shared_ptr<Answer>& answer,
               const std::shared_ptr<Waiting>& waiting, const std::function<void()>& action);
  void compile(const Connected& connection, const std::shared_ptr<Answer>& answer,
               const std::shared_ptr<Waiting>& waiting, const std::shared_ptr<Job>& job);
  void draw(const Connected& connection, const std::shared_ptr<Answer>& answer, const std::shared_ptr<Job>& job);
  void give(const Connected& connection, Answer& answer, const std::string& bytes, bool is_last);
  void begin_stream(const Connected& connection, Answer& answer);
  void keep_alive(const Connected& connection, const std::shared_ptr<Answer>& answer);
  void refuse(const Connected& connection, const std::shared_ptr<Answer>& answer, const Refusal& refused);
  using Maker = std::function<Response(const std::string& body, const HasLeft& has_left)>;
  void answer_later(const Connected& connection, Request request, boost::asio::thread_pool& thread, Maker make);
  boost::asio::thread_pool& preparing(const Request& request);
  nlohmann::json model() const;
  Response models() const;
  Response metrics();

  ServerOptions options_;
  BodyBudget bodies_;
  boost::asio::io_context context_;
  Listener listener_;
  boost::asio::thread_pool preparing_{2};        ///< one may wait for files
  boost::asio::thread_pool preparing_large_{1};  ///< what takes long, and much memory: one at a time
  boost::asio::thread_pool evaluating_{1};  ///< what is evaluated outside of the scheduler's steps, and waits for room
  Access access_;
  Metrics metrics_;
  SlowClients slow_;
  std::int64_t started_ = 0;
  Engine engine_;  ///< last: its thread ends before what it gives bytes to
};

}  // namespace server
