// bench_clients.h: what several clients of one scheduler get: tokens a second together, and for each how long the first
// token takes, and the next ones.
#pragma once

#include <cstdint>
#include <qinfer/qinfer.hpp>
#include <string>
#include <vector>

namespace cli {

struct ClientsArgs {
  std::vector<std::uint32_t> cpus;
  std::uint32_t n = 1, requests = 1;     // of each client, one after the other
  std::uint32_t prompt = 0, decode = 0;  // tokens of a request
  std::uint32_t step_ms = 100;
  std::uint32_t blocks = 0;  // of the cache, 32 tokens each; 0: as many as the requests need
  std::string park;          // a directory, or none
  bool no_limit = false;     // what a request will decode is not said when it begins
};

struct ClientsReport {
  ClientsArgs args;
  std::string cpu_name, kernel_set;
  std::uint64_t times_parked = 0;
  double seconds = 0;                  // from the first request to the last token
  std::vector<double> first, between;  // seconds to a request's first token, and between two tokens
};

/// The same ids on every machine and in every run.
std::vector<qinfer_token> random_tokens(std::size_t n, std::uint32_t n_vocab, std::uint32_t seed = 0);

/// Of seconds, in milliseconds; 0 where there are none.
double percentile(std::vector<double> values, double part);

ClientsReport measure_clients(const qi::Model& model, std::int32_t kv_type, const ClientsArgs& args);
void print_clients(const ClientsReport& report, bool json);

}  // namespace cli
