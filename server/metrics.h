// metrics.h: what /metrics says, in Prometheus's text format. Gauges of the scheduler have vLLM's names besides our
// own, since gateways read those.
#pragma once

#include <qinfer/qinfer.h>

#include <cstdint>
#include <map>
#include <string>

#include "keeper.h"

namespace server {

class Metrics {
 public:
  void count_answer(int status) { ++answers_[status]; }
  std::string text(const std::string& model, const qinfer_scheduler_stats& scheduler,
                   const qinfer_kv_cache_stats& cache, std::uint32_t n_connections, const Keeper* keeper) const;

 private:
  std::map<int, std::uint64_t> answers_;
};

}  // namespace server
