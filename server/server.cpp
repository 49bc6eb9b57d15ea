// server.cpp: see server.h.
#include "server.h"

#include <malloc.h>

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "mutex.h"
#include "tokens.h"

#include "log.h"
#include "page.h"

namespace server {
namespace {

namespace net = boost::asio;
/// A path as other servers know it too, without /v1.
std::string known_path(const std::string& path) {
  for (const char* known : {"/models", "/chat/completions", "/completions", "/embeddings", "/responses", "/messages"})
    if (path == known) return "/v1" + path;
  return path;
}

/// Bytes of a body that is prepared on the thread for large ones.
constexpr std::size_t kLargeBody = 1 << 20;

/// At its end the system has back what preparing a body took, some fifty times its bytes: glibc would keep it for the
/// next one of the same thread.
class TakesMuch {
 public:
  explicit TakesMuch(std::size_t body) : is_large_(body > kLargeBody / 4) {}
  ~TakesMuch() {
#ifdef __GLIBC__
    if (is_large_) malloc_trim(0);
#endif
  }
  TakesMuch(const TakesMuch&) = delete;
  TakesMuch& operator=(const TakesMuch&) = delete;

 private:
  [[maybe_unused]] const bool is_large_;
};

/// Connections' bodies have their parts of `bodies`, and their answers are logged.
ListenOptions listen_options_of(const ServerOptions& options, BodyBudget& bodies) {
  Log& log = *options.log;
  const std::uint64_t most = options.limits.head.most_body_bytes;
  if (bodies.bytes() < most)
    throw std::runtime_error("--bodies-bytes is " + std::to_string(bodies.bytes()) + ", less than the " +
                             std::to_string(most) + " of --max-body-bytes");
  ListenOptions with = options;
  with.limits.bodies = &bodies;
  with.limits.on_answered = [&log](const Record& record) { log_answered(log, record); };
  return with;
}

Response plain(int status, const std::string& text) { return {status, "text/plain; charset=utf-8", text}; }

/// `dialect`: whose form it has; null: OpenAI's own.
Response answer_of(const Refusal& refused, const Dialect* dialect = nullptr) {
  if (dialect != nullptr) return dialect->refusal(refused);
  return {refused.status, "application/json", refused.json};
}

Response not_allowed(const std::string& allowed, const Dialect* dialect = nullptr) {
  Response response = answer_of(refusal(405, "invalid_request_error", "The method is not allowed here"), dialect);
  response.fields = "Allow: " + allowed + "\r\n";
  return response;
}

/// The JSON of an error, which a stream has in an event.
std::string error_of(const std::string& bytes) {
  constexpr std::string_view kEvent = "data: ";
  if (!bytes.starts_with(kEvent)) return bytes;
  return bytes.substr(kEvent.size(), bytes.find('\n') - kEvent.size());
}

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options),
      bodies_(options.bodies_bytes),
      listener_(
          context_, listen_options_of(options, bodies_),
          {[this](const Connected& from, Request request) { route(from, std::move(request)); },
           [this](const Request& head, BodyBudget::Part& part) { return screen(head, part); }, [this] { reload(); },
           [this] {
             preparing_large_.stop();
             evaluating_.stop();
             preparing_.stop();
           }}),
      access_(options, options.host),
      slow_(context_, std::chrono::seconds(options.slow_s), [this] { return engine_.has_waiting(); }),
      engine_(options.engine) {
  started_ =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  listener_.start();
}

void Server::run() {
  context_.run();
  preparing_.join();
  preparing_large_.join();
  evaluating_.join();
  engine_.end();
  // Connections that were cut: a read or a write that has not been told of their end holds them, and so did jobs.
  context_.restart();
  context_.poll();
}

void Server::reload() {
  if (const std::string failed = access_.reload(); !failed.empty())
    options_.log->say(failed + "; the keys are those of before");
}

// ---- Routes

bool Server::is_open(const std::string& path) const {
  return path == "/health" || path == "/ready" || (path == "/" && options_.has_page);
}

/// Who may not ask is not waited for, nor is a body that there is no room for.
Screened Server::screen(const Request& head, BodyBudget::Part& part) {
  const std::shared_ptr<Dialect> dialect = dialect_of(known_path(head.target));
  Screened screened = {{}, access_.fields(head)};
  if (access_.is_preflight(head)) {
    screened.answer = plain(200, "");
  } else if (const auto refused = access_.refusal_of(head, is_open(head.target))) {
    screened.answer = answer_of(*refused, dialect.get());
  } else if (!part.grow(head.length)) {
    screened.answer = too_many_bodies();
    if (dialect) screened.answer->body = dialect->refusal(no_part()).body;
  }
  if (screened.answer) metrics_.count_answer(screened.answer->status);
  return screened;
}

void Server::route(const Connected& connection, Request request) {
  const std::string path = known_path(request.target);
  const std::shared_ptr<Dialect> dialect = dialect_of(path);
  const auto respond = [&](const Response& response) {
    metrics_.count_answer(response.status);
    connection->respond(response);
  };
  if (!is_open(path)) request.key = access_.number_of(request);
  if (request.key != 0) request.record->key = short_hash(request.authorization);
  const bool is_get = request.method == "GET", is_post = request.method == "POST";
  if (is_open(path) || path == "/metrics" || path == "/v1/models" || path == "/tokenizer_info") {
    if (!is_get) return respond(not_allowed("GET, HEAD"));
    if (path == "/") return respond(page(request));
    if (path == "/health") return respond(plain(200, "ok\n"));
    if (path == "/ready") return respond(listener_.is_draining() ? plain(503, "draining\n") : plain(200, "ready\n"));
    if (path == "/tokenizer_info") return respond(tokenizer_info(engine_.model(), engine_.context_tokens()));
    return respond(path == "/metrics" ? metrics() : models());
  }
  static const std::pair<const char*, std::int32_t> kKinds[] = {{"/v1/chat/completions", QINFER_OPENAI_CHAT},
                                                                {"/v1/completions", QINFER_OPENAI_COMPLETION},
                                                                {"/v1/embeddings", QINFER_OPENAI_EMBEDDINGS}};
  for (const auto& [known, kind] : kKinds) {
    if (path != known) continue;
    if (!is_post) return respond(not_allowed("POST"));
    return complete(connection, kind, std::move(request));
  }
  if (dialect) {
    if (!is_post) return respond(not_allowed("POST", dialect.get()));
    return complete(connection, QINFER_OPENAI_CHAT, std::move(request), dialect);
  }
  const bool reranks = path == "/v1/rerank" || path == "/rerank";
  if (reranks || path == "/v1/score" || path == "/score") {
    if (!is_post) return respond(not_allowed("POST"));
    return answer_later(connection, std::move(request), evaluating_,
                        [this, call = reranks ? rerank : score](const std::string& body, const HasLeft& left) {
                          return call({engine_, options_.rerank_template}, body, left);
                        });
  }
  if (path == "/tokenize" || path == "/detokenize") {
    if (!is_post) return respond(not_allowed("POST"));
    net::thread_pool& thread = preparing(request);
    return answer_later(connection, std::move(request), thread,
                        [this, makes_tokens = path == "/tokenize"](const std::string& body, const HasLeft&) {
                          return makes_tokens ? tokenize(engine_.model(), engine_.context_tokens(), body)
                                              : detokenize(engine_.model(), body);
                        });
  }
  constexpr std::string_view kModel = "/v1/models/";
  if (path.starts_with(kModel)) {
    if (!is_get) return respond(not_allowed("GET, HEAD"));
    if (path.substr(kModel.size()) == engine_.name()) return respond({200, "application/json", model().dump()});
    return respond(
        answer_of(refusal(404, "invalid_request_error", "The model here is " + engine_.name(), "model_not_found")));
  }
  respond(answer_of(refusal(404, "invalid_request_error", "There is no " + path + " here")));
}

/// What is given to one request. Jobs own it, so it owns none.
struct Server::Answer {
  std::shared_ptr<Dialect> dialect;  ///< null: OpenAI's own. Of the preparing thread, then of the connection's
  // What follows is of the connection's thread.
  net::steady_timer timer;         ///< until a stream without news has a comment
  std::shared_ptr<Record> record;  ///< of the request
  bool is_stream = false, has_begun = false, is_over = false;
  std::string all = {};  ///< of what is no stream

  void end() {
    is_over = true;
    timer.cancel();
  }
};

/// What a client waits for. For any thread.
class Server::Waiting {
 public:
  void leave() {
    if (const auto job = note_left()) job->cancel();
  }
  void pause(bool paused) {
    const Lock lock(mutex_);
    if (job_ != nullptr) job_->pause(paused);
  }
  bool has_left() {
    const Lock lock(mutex_);
    return left_;
  }
  /// Whether the client is still there.
  bool begin(const std::shared_ptr<Job>& job) {
    const Lock lock(mutex_);
    if (!left_) job_ = job;
    return !left_;
  }

 private:
  std::shared_ptr<Job> note_left() {
    const Lock lock(mutex_);
    left_ = true;
    return std::move(job_);
  }

  Mutex mutex_;
  std::shared_ptr<Job> job_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
};

/// The request is prepared on a thread of its own, since a long prompt takes time to be made tokens, and drawn on the
/// engine's; what is given comes back to the connection's thread.
void Server::complete(const Connected& connection, std::int32_t kind, Request request,
                      std::shared_ptr<Dialect> dialect) {
  const auto waiting = std::make_shared<Waiting>();
  const auto answer = std::make_shared<Answer>(Answer{std::move(dialect), net::steady_timer(context_), request.record});
  if (request.record->has_contents) request.record->request = request.body.substr(0, kMostContents);
  connection->set_on_leave([waiting, answer] {
    waiting->leave();
    answer->end();
  });
  connection->set_on_slow([this, waiting, connection](bool is_slow) {
    is_slow ? slow_.add(connection) : slow_.remove(connection.get());
    waiting->pause(is_slow);
  });
  net::thread_pool& thread = preparing(request);
  net::post(thread, [this, connection, kind, answer, waiting, request = std::move(request)]() mutable {
    const TakesMuch takes(request.body.size());
    attempt(connection, answer, waiting, [&] { prepare(connection, kind, std::move(request), answer, waiting); });
  });
}

/// On any thread, unless the client has left: what it throws is the answer.
void Server::attempt(const Connected& connection, const std::shared_ptr<Answer>& answer,
                     const std::shared_ptr<Waiting>& waiting, const std::function<void()>& action) {
  if (waiting->has_left()) return;
  try {
    action();
  } catch (const Refusal& refused) {
    if (!waiting->has_left()) refuse(connection, answer, refused);
  } catch (const std::exception& failed) {
    refuse(connection, answer, refusal(500, "server_error", failed.what()));
  }
}

net::thread_pool& Server::preparing(const Request& request) {
  return request.body.size() > kLargeBody ? preparing_large_ : preparing_;
}

void Server::prepare(const Connected& connection, std::int32_t kind, Request request,
                     const std::shared_ptr<Answer>& answer, const std::shared_ptr<Waiting>& waiting) {
  const std::shared_ptr<Dialect>& dialect = answer->dialect;
  std::string asked = dialect ? dialect->request(request.body) : std::move(request.body);
  request.body = {};
  if (dialect && dialect->counts()) {
    const auto n_tokens = static_cast<std::uint32_t>(tokens_of_request(engine_.model(), kind, asked).size());
    const Response counted = {200, "application/json", dialect->counted(n_tokens)};
    return net::post(context_, [this, connection, counted] {
      metrics_.count_answer(counted.status);
      connection->respond(counted);
    });
  }
  const auto job = std::make_shared<Job>(engine_, kind, asked, Tenant{request.authorization, request.key});
  asked = {};
  const bool is_stream = dialect ? dialect->is_stream() : job->is_stream();
  if (!waiting->begin(job)) return;
  net::post(context_, [this, connection, answer, is_stream] {
    answer->is_stream = is_stream;
    if (is_stream) keep_alive(connection, answer);
  });
  if (job->compiles_long())
    return net::post(preparing_large_, [this, connection, answer, waiting, job] {
      attempt(connection, answer, waiting, [&] { compile(connection, answer, waiting, job); });
    });
  compile(connection, answer, waiting, job);
}

/// What a grammar enforces is made one, and then all is drawn.
void Server::compile(const Connected& connection, const std::shared_ptr<Answer>& answer,
                     const std::shared_ptr<Waiting>& waiting, const std::shared_ptr<Job>& job) {
  job->compile();
  if (!job->evaluates()) return draw(connection, answer, job);
  net::post(evaluating_, [this, connection, answer, waiting, job] {
    attempt(connection, answer, waiting, [&] { draw(connection, answer, job); });
  });
}

void Server::draw(const Connected& connection, const std::shared_ptr<Answer>& answer, const std::shared_ptr<Job>& job) {
  job->submit([this, connection, answer, job = job.get()](std::string bytes, bool is_last) {
    const Dialect::Facts facts = {job->prompt_tokens(), job->is_stopped()};
    const int failure = job->failure();
    const Usage usage = job->usage();
    net::post(context_, [this, connection, answer, facts, failure, usage, bytes = std::move(bytes), is_last] {
      answer->record->is_drawn = true;
      answer->record->usage = usage;
      if (failure != 0 && !answer->has_begun && !answer->dialect && is_last)
        return refuse(connection, answer, {failure, error_of(bytes)});
      try {
        const auto& translates = answer->dialect;
        give(connection, *answer, translates ? translates->add(bytes, is_last, facts) : bytes, is_last);
      } catch (const Refusal& refused) {
        refuse(connection, answer, refused);
      } catch (const std::exception& failed) {  // no memory
        if (answer->has_begun) return answer->end(), connection->end_stream();
        refuse(connection, answer, refusal(500, "server_error", failed.what()));
      }
    });
  });
}

/// On the connection's thread.
void Server::give(const Connected& connection, Answer& answer, const std::string& bytes, bool is_last) {
  if (!answer.is_stream) {
    answer.all.append(bytes);
    if (!is_last) return;
    metrics_.count_answer(200);
    return connection->respond({200, "application/json", std::move(answer.all)});
  }
  begin_stream(connection, answer);
  connection->stream(bytes);
  if (!is_last) return;
  connection->end_stream();
  answer.end();
}

void Server::begin_stream(const Connected& connection, Answer& answer) {
  answer.timer.expires_after(std::chrono::seconds(options_.keep_alive_s));
  if (std::exchange(answer.has_begun, true)) return;
  metrics_.count_answer(200);
  connection->begin_stream("text/event-stream");
}

/// Proxies and clients give up on a stream that is silent while a long prompt is evaluated.
void Server::keep_alive(const Connected& connection, const std::shared_ptr<Answer>& answer) {
  if (answer->is_over || connection->is_closed()) return;
  if (answer->timer.expiry() <= std::chrono::steady_clock::now()) {
    const bool is_first = answer->timer.expiry() == std::chrono::steady_clock::time_point();
    if (is_first) {
      answer->timer.expires_after(std::chrono::seconds(options_.keep_alive_s));
    } else {
      begin_stream(connection, *answer);
      connection->stream(": still here\n\n");
    }
  }
  answer->timer.async_wait(
      [this, connection, answer](const boost::system::error_code&) { keep_alive(connection, answer); });
}

/// What takes time is computed on a preparing thread.
void Server::answer_later(const Connected& connection, Request request, net::thread_pool& thread, Maker make) {
  const auto waiting = std::make_shared<Waiting>();
  connection->set_on_leave([waiting] { waiting->leave(); });
  net::post(thread, [this, connection, waiting, make = std::move(make), request = std::move(request)]() mutable {
    if (waiting->has_left()) return;
    const TakesMuch takes(request.body.size());
    const std::string body = std::move(request.body);
    Response response;
    try {
      response = make(body, [&] { return waiting->has_left(); });
    } catch (const Refusal& refused) {
      response = answer_of(refused);
    } catch (const std::exception& failed) {
      response = answer_of(refusal(500, "server_error", failed.what()));
    }
    if (response.status >= 400) response.body = engine_.folders().hidden(response.body);
    net::post(context_, [this, connection, response] {
      metrics_.count_answer(response.status);
      connection->respond(response);
    });
  });
}

/// From any thread, before anything of the completion is given. A stream may have begun with a comment.
void Server::refuse(const Connected& connection, const std::shared_ptr<Answer>& answer, const Refusal& refused) {
  const Refusal shown = {refused.status, engine_.folders().hidden(refused.json)};
  Response response = answer_of(shown, answer->dialect.get());
  if (refused.status == 429) response.fields = "Retry-After: " + std::to_string(engine_.retry_after_s()) + "\r\n";
  net::post(context_, [this, connection, answer, response, json = shown.json] {
    answer->end();
    if (answer->has_begun) {
      const std::string event = "data: " + json + "\n\ndata: [DONE]\n\n";
      connection->stream(answer->dialect ? answer->dialect->add(event, true, {}) : event);
      return connection->end_stream();
    }
    metrics_.count_answer(response.status);
    connection->respond(response);
  });
}

nlohmann::json Server::model() const {
  return {{"id", engine_.name()},
          {"object", "model"},
          {"created", started_},
          {"owned_by", "qinfer"},
          {"max_model_len", engine_.context_tokens()}};
}

Response Server::models() const {
  return {200, "application/json", nlohmann::json{{"object", "list"}, {"data", {model()}}}.dump()};
}

Response Server::metrics() {
  Response response = {200, "text/plain; version=0.0.4; charset=utf-8", {}};
  response.body =
      metrics_.text(engine_, {listener_.n_connections(), static_cast<std::uint32_t>(slow_.size()), bodies_.taken()});
  return response;
}

}  // namespace server
