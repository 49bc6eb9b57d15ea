// bench_clients.cpp: see bench_clients.h. A client sends its next request when the last one has ended, so there are
// always as many requests as clients; each has a prompt of its own. Tokens are drawn greedily, and none ends a request
// before -n tokens, since end tokens are biased away.
#include "bench_clients.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "support.h"

namespace cli {

std::vector<qinfer_token> random_tokens(std::size_t n, std::uint32_t n_vocab, std::uint32_t seed) {
  // A linear congruential generator; std's distributions may differ from one system to another.
  std::vector<qinfer_token> tokens(n);
  std::uint64_t state = 42 + seed;
  for (qinfer_token& token : tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<qinfer_token>((state >> 33) % n_vocab);
  }
  return tokens;
}

namespace {

using Clock = std::chrono::steady_clock;

/// One client, with the request that it waits for.
struct Client {
  std::uint32_t id = 0, sent = 0;
  std::unique_ptr<qi::Session> session;
  std::unique_ptr<qi::Generation> generation;
  std::unique_ptr<qi::Request> request;
  Clock::time_point last;  // when it was sent, or its last token came
  bool has_token = false;
  std::uint32_t n_tokens = 0;  // of the request
};

class Clients {
 public:
  Clients(const qi::Model& model, std::int32_t kv_type, const ClientsArgs& args)
      : model_(model), args_(args), cache_(cache_of(model, kv_type, args)), scheduler_(scheduler_of(cache_, args)) {
    for (const qinfer_token token : model.end_tokens()) no_ends_.emplace_back(token, -INFINITY);
    clients_.resize(args.n);
    for (std::uint32_t i = 0; i < args.n; ++i) clients_[i].id = i;
  }

  ClientsReport run() {
    const Clock::time_point begin = Clock::now();
    for (Client& client : clients_) send(client);
    while (scheduler_.wait(0)) {
      scheduler_.step();
      for (qinfer_event event = scheduler_.next(); event.kind != QINFER_EVENT_NONE; event = scheduler_.next())
        take(event, *static_cast<Client*>(event.user));
    }
    report_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    report_.args = args_;
    report_.times_parked = scheduler_.stats().times_parked;
    return std::move(report_);
  }

 private:
  static qi::KvCache cache_of(const qi::Model& model, std::int32_t kv_type, const ClientsArgs& args) {
    auto options = qi::options<qinfer_kv_cache_options>();
    options.kv_type = kv_type;
    options.block_tokens = 32;
    options.budget_blocks = blocks_of(args);
    return qi::KvCache(model, options);
  }
  static std::uint32_t blocks_of(const ClientsArgs& args) {
    return args.blocks != 0 ? args.blocks : args.n * ((args.prompt + args.decode + 31) / 32);
  }
  static qi::Scheduler scheduler_of(qi::KvCache& cache, const ClientsArgs& args) {
    auto options = qi::options<qinfer_scheduler_options>();
    options.max_running = args.n;
    options.step_ns = std::uint64_t{args.step_ms} * 1'000'000;
    options.park_path = args.park.empty() ? nullptr : args.park.c_str();
    return qi::Scheduler(cache, options);
  }

  void send(Client& client) {
    client.request.reset(), client.generation.reset(), client.session.reset();
    if (client.sent == args_.requests) return;
    auto options = qi::options<qinfer_session_options>();
    const std::uint32_t context = model_.info().context_tokens;
    options.max_tokens = args_.no_limit ? std::min(context, blocks_of(args_) * 32) : args_.prompt + args_.decode;
    client.session = std::make_unique<qi::Session>(cache_, options);
    client.session->append(
        random_tokens(args_.prompt, model_.info().n_vocab, client.id * args_.requests + client.sent));
    client.session->set_bias(no_ends_);
    qi::GenerateOptions generate;
    generate.max_tokens = args_.no_limit ? 0 : args_.decode;
    client.generation = std::make_unique<qi::Generation>(*client.session, generate);
    auto request = qi::options<qinfer_request_options>();
    request.user = &client;
    request.key = client.id;
    client.request = std::make_unique<qi::Request>(scheduler_.submit(*client.generation, request));
    ++client.sent;
    client.last = Clock::now();
    client.has_token = false;
    client.n_tokens = 0;
  }

  void take(const qinfer_event& event, Client& client) {
    if (event.kind == QINFER_EVENT_END) {
      const bool is_enough = event.status == QINFER_E_CANCELLED && client.n_tokens >= args_.decode;
      if (event.status != QINFER_OK && !is_enough) throw Failure(std::string("a request failed: ") + event.message);
      send(client);
    } else if (event.kind == QINFER_EVENT_TOKEN && event.token.token >= 0) {
      const Clock::time_point now = Clock::now();
      (client.has_token ? report_.between : report_.first)
          .push_back(std::chrono::duration<double>(now - client.last).count());
      client.last = now;
      client.has_token = true;
      if (++client.n_tokens == args_.decode && args_.no_limit) client.request->cancel();
    }
  }

  const qi::Model& model_;
  const ClientsArgs& args_;
  qi::KvCache cache_;
  qi::Scheduler scheduler_;
  std::vector<std::pair<qinfer_token, float>> no_ends_;
  std::vector<Client> clients_;
  ClientsReport report_;
};

}  // namespace

double percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1] * 1e3;
}

ClientsReport measure_clients(const qi::Model& model, std::int32_t kv_type, const ClientsArgs& args) {
  report(format("running %u clients with %u requests each: %u tokens of prompt, %u to decode", args.n, args.requests,
                args.prompt, args.decode));
  ClientsReport out = Clients(model, kv_type, args).run();
  out.cpu_name = qi::cpu_name();
  out.kernel_set = model.info().kernel_set;
  return out;
}

void print_clients(const ClientsReport& report, bool json) {
  const ClientsArgs& args = report.args;
  const double requests = static_cast<double>(args.n) * args.requests;
  const double output = requests * args.decode / report.seconds, input = requests * args.prompt / report.seconds;
  const std::pair<const char*, const std::vector<double>*> times[] = {{"first token", &report.first},
                                                                      {"between tokens", &report.between}};
  if (json) {
    nlohmann::json out = {{"cpu", report.cpu_name},
                          {"kernel_set", report.kernel_set},
                          {"threads", args.cpus.size()},
                          {"clients", args.n},
                          {"requests", requests},
                          {"prompt_tokens", args.prompt},
                          {"new_tokens", args.decode},
                          {"step_ms", args.step_ms},
                          {"seconds", report.seconds},
                          {"new_tokens_per_second", output},
                          {"times_parked", report.times_parked}};
    for (const auto& [name, values] : times)
      out[std::string(name) == "first token" ? "first_token_ms" : "between_tokens_ms"] = {
          {"p50", percentile(*values, 0.5)}, {"p90", percentile(*values, 0.9)}, {"p99", percentile(*values, 0.99)}};
    print(out.dump() + "\n");
    return;
  }
  print(format("%s, %zu threads, %s\n", report.cpu_name.c_str(), args.cpus.size(), report.kernel_set.c_str()));
  print(format("%-16s %.1f tokens/s, %.1f of prompts; %.2f requests/s\n", "together", output, input,
               requests / report.seconds));
  if (!args.park.empty())
    print(format("%-16s %llu times\n", "parked", static_cast<unsigned long long>(report.times_parked)));
  for (const auto& [name, values] : times)
    print(format("%-16s p50 %.1f ms, p90 %.1f ms, p99 %.1f ms\n", name, percentile(*values, 0.5),
                 percentile(*values, 0.9), percentile(*values, 0.99)));
}

}  // namespace cli
