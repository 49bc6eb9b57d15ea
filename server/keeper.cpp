// keeper.cpp: see keeper.h.
#include "keeper.h"

#include "engine.h"

namespace server {
namespace {

constexpr std::size_t kMostWaiting = 16;

}  // namespace

Keeper::Keeper(qi::KvCache& cache, const EngineOptions& options)
    : store_(cache, options.keep_path, options.keep_bytes), thread_([this] { run(); }) {}

Keeper::~Keeper() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Keeper::keep(std::unique_ptr<qi::Session> session, const std::string& tenant) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostWaiting) {
      ++n_passed_over_;
      return;
    }
    waiting_.emplace_back(std::move(session), tenant);
  }
  changed_.notify_one();
}

void Keeper::fetch(const std::vector<qi::Token>& tokens, const std::string& tenant) noexcept {
  try {
    store_.fetch(tokens, tenant);
  } catch (const std::exception&) {
    ++n_failed_;
  }
}

void Keeper::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto [session, tenant] = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      store_.keep(*session, tenant);
    } catch (const std::exception&) {
      ++n_failed_;
    }
    session.reset();
    lock.lock();
  }
}

}  // namespace server
