// keeper.h: conversations that survive: what sessions have evaluated is kept in a folder when they have ended, and
// found again when the same tokens come, be it after a restart. A thread of its own writes, so that the engine's goes
// on; the sessions hold their blocks until they are written, so only a few may wait, and those beyond are not kept.
#pragma once

#include <qinfer/qinfer.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mutex.h"

namespace server {

struct EngineOptions;

class Keeper {
 public:
  /// Throws qi::Error, also where another server has the folder.
  Keeper(qi::KvCache& cache, const EngineOptions& options);
  /// Writes what waits.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// From any thread.
  void keep(std::unique_ptr<qi::Session> session, const std::string& tenant);
  /// What is kept of these tokens is in the cache then, for sessions of this space. Reads files.
  void fetch(const std::vector<qi::Token>& tokens, const std::string& tenant, std::uint32_t prefix_space) noexcept;
  qinfer_kv_store_stats stats() const { return store_.stats(); }
  std::uint64_t n_failed() const { return n_failed_; }
  std::uint64_t n_passed_over() const { return n_passed_over_; }

 private:
  struct Kept {
    std::unique_ptr<qi::Session> session;  ///< null: the keeper ends
    std::string tenant;
  };
  Kept next();
  void run();

  qi::KvStore store_;
  std::atomic<std::uint64_t> n_failed_{0}, n_passed_over_{0};
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Kept> waiting_ ABSL_GUARDED_BY(mutex_);
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace server
