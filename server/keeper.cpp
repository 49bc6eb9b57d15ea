// keeper.cpp: see keeper.h.
#include "keeper.h"

#include <chrono>

#include "engine.h"

namespace server {
namespace {

constexpr std::size_t kMostWaiting = 16;

}  // namespace

Keeper::Keeper(qi::KvCache& cache, const EngineOptions& options)
    : store_(cache, options.keep_path, options.keep_bytes), thread_([this] { run(); }) {}

Keeper::~Keeper() {
  {
    const Lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Keeper::keep(std::unique_ptr<qi::Session> session, const std::string& tenant) {
  {
    const Lock lock(mutex_);
    if (waiting_.size() >= kMostWaiting) {
      ++n_passed_over_;
      return;
    }
    waiting_.push_back({std::move(session), tenant});
  }
  changed_.notify_one();
}

void Keeper::fetch(const std::vector<qi::Token>& tokens, const std::string& tenant,
                   std::uint32_t prefix_space) noexcept {
  try {
    store_.fetch(tokens, tenant, nullptr, prefix_space);
  } catch (const std::exception&) {
    ++n_failed_;
  }
}

Keeper::Kept Keeper::next() {
  const Lock lock(mutex_);
  // wait() would need libstdc++ of GCC 12, which wheels for every Linux may not.
  while (!ends_ && waiting_.empty()) changed_.wait_for(mutex_, std::chrono::hours(1));
  if (waiting_.empty()) return {};
  Kept kept = std::move(waiting_.front());
  waiting_.pop_front();
  return kept;
}

/// A session ends before the next one is waited for: others need its blocks.
void Keeper::run() {
  while (true) {
    const Kept kept = next();
    if (kept.session == nullptr) return;
    try {
      store_.keep(*kept.session, kept.tenant);
    } catch (const std::exception&) {
      ++n_failed_;
    }
  }
}

}  // namespace server
