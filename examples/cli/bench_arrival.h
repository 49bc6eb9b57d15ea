// bench_arrival.h: what a long prompt does to requests that are drawing tokens when it arrives, and they to it: the
// time between their tokens while it is evaluated, and the time to its first token, beside what both take alone.
#pragma once

#include "bench_clients.h"

namespace cli {

struct ArrivalReport {
  ClientsArgs args;
  std::uint32_t prompt = 0;  // tokens of the request that arrives
  std::string cpu_name, kernel_set;
  double alone = 0;             // seconds to its first token, evaluated as one
  double first = 0;             // the same, among the others
  double step = 0;              // seconds: a token of each of the others, and 8 rows at the end of its prompt
  std::vector<double> between;  // seconds between the others' tokens, until its first token
};

ArrivalReport measure_arrival(const qi::Model& model, std::int32_t kv_type, const ClientsArgs& args,
                              std::uint32_t prompt);
void print_arrival(const ArrivalReport& report, bool json);

}  // namespace cli
