// Parking: the keys and values of requests that have given up their places in the cache for a while, in files, and the
// way there and back. A scheduler (scheduler_parking.cpp) decides who leaves and who returns.
//
//   leave()      writes some blocks of the session, and once all are written gives them back. Until then the session is
//                as it was: what leaves may still be let go.
//   make_place() takes as many blocks again.
//   come_back()  reads some blocks, and once all are read and their checksum is right the session is as it was.
//
// Each call takes as long as it is told, but moves one block at least, so that a step of the scheduler is not longer
// for it than the host wants. Tokens, sampler, hooks, logits and text stay in memory: nothing need be made again, and
// what a request gives does not depend on whether it was parked.
//
// Each parked request has a file of its own, so that one that fails harms no other: of the operating system's one
// without a name in a directory, of a host's files "<path>/0", "<path>/1" and so on. Files stay open and are used
// again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "kv/parked_blocks.h"

namespace qinfer::engine {

struct ParkingOptions {
  std::string path;
  std::shared_ptr<const platform::Files> files;  ///< null: the operating system's
  std::uint64_t most_bytes = 0;                  ///< in all files together; 0: as many as needed
};

class Parking {
 public:
  /// For at most n requests at a time.
  Parking(ParkingOptions options, std::uint32_t n) : options_(std::move(options)), slots_(n) {}

  static std::uint64_t memory_bytes(std::uint32_t n) { return sizeof(Parking) + n * sizeof(Slot); }

  /// A free slot; there must be one.
  std::size_t take_slot();
  /// What is in it is forgotten.
  void free_slot(std::size_t slot);

  /// Whether a call that moves blocks must end.
  using IsOver = std::function<bool()>;
  /// True: the session has left. QINFER_E_STATE where others have changed it meanwhile.
  Result<bool> leave(std::size_t slot, Session& session, const IsOver& is_over);
  /// Of a session that has left. Code::kv_full without enough blocks, Code::no_memory or Code::io where the system
  /// gives no memory, Code::state where others have changed it meanwhile.
  static Code make_place(Session& session) {
    if (session.keys().evaluated() != 0 || session.keys().n_held() != 0) return Code::state;
    return session.keys().make_place();
  }
  /// True: it has come back. QINFER_E_FORMAT for a damaged file.
  Result<bool> come_back(std::size_t slot, Session& session, const IsOver& is_over);

  std::uint64_t bytes() const { return bytes_.load(); }  ///< in files; from any thread

 private:
  struct Slot {
    kv::ParkedBlocks blocks;
    std::size_t n_moved = 0;      ///< blocks, there or back
    std::size_t n_blocks = 0;     ///< that were written
    std::size_t n_evaluated = 0;  ///< of the session when it began to
    bool taken = false;
  };
  Status open(std::size_t slot);
  static Status check_unchanged(const Slot& slot, const Session& session);

  ParkingOptions options_;
  std::vector<Slot> slots_;
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace qinfer::engine
