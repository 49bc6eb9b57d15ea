// metrics.h: what /metrics says, in Prometheus's text format. Gauges of the scheduler have vLLM's names besides our
// own, since gateways read those.
#pragma once

#include <qinfer/qinfer.h>

#include <cstdint>
#include <map>
#include <string>

#include "engine.h"

namespace server {

class Metrics {
 public:
  void count_answer(int status) { ++answers_[status]; }
  struct Connections {
    std::uint32_t open = 0, slow = 0;
    std::uint64_t body_bytes = 0;
  };
  std::string text(Engine& engine, const Connections& connections) const;

 private:
  std::map<int, std::uint64_t> answers_;
};

}  // namespace server
