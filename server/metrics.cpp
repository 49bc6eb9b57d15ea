// metrics.cpp: see metrics.h.
#include "metrics.h"

namespace server {
namespace {

/// Appends families of samples.
class Page {
 public:
  explicit Page(std::string label) : label_(std::move(label)) {}
  void add(const char* name, const char* type, const char* help, double value) {
    begin(name, type, help);
    text_ += std::string(name) + "{" + label_ + "} " + number(value) + "\n";
  }
  void begin(const char* name, const char* type, const char* help) {
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const char* name, const std::string& more, double value) {
    text_ += std::string(name) + "{" + label_ + "," + more + "} " + number(value) + "\n";
  }
  void add(const std::string& name, const char* help, const Histogram& histogram) {
    begin(name.c_str(), "histogram", help);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i <= Histogram::kEnds.size(); ++i) {
      sum += histogram.bucket(i);
      const std::string end = i < Histogram::kEnds.size() ? number(Histogram::kEnds[i]) : "+Inf";
      sample((name + "_bucket").c_str(), "le=\"" + end + "\"", static_cast<double>(sum));
    }
    text_ += name + "_sum{" + label_ + "} " + number(histogram.sum()) + "\n";
    text_ += name + "_count{" + label_ + "} " + number(static_cast<double>(sum)) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  static std::string number(double value) {
    const std::string text = std::to_string(value);
    return text.substr(0, text.find_last_not_of('0') + 1 - (text[text.find_last_not_of('0')] == '.' ? 1 : 0));
  }
  std::string label_, text_;
};

void add_kept(Page& page, const Keeper& keeper) {
  const qinfer_kv_store_stats kept = keeper.stats();
  const auto add = [&](const char* name, const char* type, const char* help, std::uint64_t value) {
    page.add(name, type, help, static_cast<double>(value));
  };
  add("qinfer_kept_bytes", "gauge", "Bytes of kept conversations.", kept.bytes);
  add("qinfer_kept_files_written_total", "counter", "Files of kept conversations that were written.", kept.written);
  add("qinfer_kept_files_read_total", "counter", "Files of kept conversations that were read.", kept.read);
  add("qinfer_kept_files_removed_total", "counter", "Files that were removed to make room.", kept.removed);
  add("qinfer_kept_files_damaged_total", "counter", "Files that were damaged, and removed.", kept.damaged);
  add("qinfer_kept_failures_total", "counter", "Conversations that could not be kept or fetched.", keeper.n_failed());
  add("qinfer_kept_passed_over_total", "counter", "Conversations that were not kept, since too many were to be.",
      keeper.n_passed_over());
}

void add_times(Page& page, const Times& times) {
  for (const std::string prefix : {"qinfer_", "vllm:"}) {
    page.add(prefix + "time_to_first_token_seconds", "From the arrival of a request to a choice's first token.",
             times.first_token);
    page.add(prefix + "inter_token_latency_seconds", "Between two tokens of a choice.", times.between);
    page.add(prefix + "e2e_request_latency_seconds", "From the arrival of a request to a choice's end.", times.whole);
  }
}

}  // namespace

std::string Metrics::text(Engine& engine, const Connections& connections) const {
  const qinfer_scheduler_stats scheduler = engine.stats();
  const qinfer_kv_cache_stats cache = engine.cache_stats();
  std::string name;  // escaped
  for (const char c : engine.name())
    name += c == '"' || c == '\\' ? std::string{'\\', c} : c == '\n' ? "\\n" : std::string{c};
  Page page("model_name=\"" + name + "\"");
  const double used =
      cache.blocks_total == 0 ? 0 : static_cast<double>(cache.blocks_used) / static_cast<double>(cache.blocks_total);
  const std::uint32_t running = scheduler.running - scheduler.parked;
  for (const char* prefix : {"qinfer", "vllm"}) {
    const std::string own = prefix + std::string(prefix[0] == 'v' ? ":" : "_");
    page.add((own + "num_requests_running").c_str(), "gauge", "Requests that are evaluated.", running);
    page.add((own + "num_requests_waiting").c_str(), "gauge", "Requests that have not begun, or are parked.",
             scheduler.waiting + scheduler.parked);
    page.add((own + "kv_cache_usage_perc").c_str(), "gauge", "Share of the cache's blocks that are held, 0 to 1.",
             used);
  }
  page.add("qinfer_requests_parked", "gauge", "Requests that are parked.", scheduler.parked);
  page.add("qinfer_parked_bytes", "gauge", "Bytes of parked requests.", static_cast<double>(scheduler.parked_bytes));
  page.add("qinfer_connections", "gauge", "Open connections.", connections.open);
  page.add("qinfer_connections_slow", "gauge", "Those whose client does not take what is there: their requests pause.",
           connections.slow);
  page.add("qinfer_body_bytes", "gauge", "Bytes of bodies that are read or prepared, but for small ones.",
           static_cast<double>(connections.body_bytes));
  page.add("qinfer_prompt_tokens_total", "counter", "Tokens of prompts that were evaluated.",
           static_cast<double>(scheduler.prompt_rows));
  page.add("qinfer_generation_rows_total", "counter", "Rows that were evaluated to draw tokens, guesses included.",
           static_cast<double>(scheduler.decode_rows));
  page.add("qinfer_requests_total", "counter", "Choices that were submitted.",
           static_cast<double>(scheduler.submitted));
  page.add("qinfer_steps_total", "counter", "Evaluations.", static_cast<double>(scheduler.steps));
  if (engine.keeper() != nullptr) add_kept(page, *engine.keeper());
  add_times(page, engine.times());
  page.begin("qinfer_http_answers_total", "counter", "Answers by status.");
  for (const auto& [status, n] : answers_)
    page.sample("qinfer_http_answers_total", "status=\"" + std::to_string(status) + "\"", static_cast<double>(n));
  return page.text();
}

}  // namespace server
