// The calls that heap_faults and syscall_faults repeat while something fails: each prepares what it needs, makes its
// one call between faults_begin() and faults_end(), tells what came of it as text that two runs can compare, and looks
// at the files that it may have left.
#pragma once

#include <qinfer/qinfer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qinfer::faults {

/// Each program defines both: between them requests are counted, and fail as its present case says.
void faults_begin();
void faults_end();

/// A folder with what the calls read: models, a packed one, snapshots. Written by the parent, before it forks.
struct Files {
  std::string folder;   ///< for what is written by the calls
  std::string tiny;     ///< a model directory with three shards, nested configuration and a tokenizer
  std::string shipped;  ///< the model that the program was given
};

class Subject {
 public:
  virtual ~Subject() = default;
  /// Puts files and handles in place for one call.
  virtual void before() {}
  /// The call, between faults_begin() and faults_end().
  virtual qinfer_status call(qinfer_error* err) = 0;
  /// What came of a call that succeeded.
  virtual std::string result() = 0;
  /// What is wrong with what a call has left (an output handle, files), or nothing; called in either case.
  /// `removable`: temporary files could be removed.
  virtual std::string leftovers(qinfer_status, bool removable) { return static_cast<void>(removable), ""; }
  /// Frees what the call made.
  virtual void after() {}
};

struct Operation {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
  long weight = 1;  ///< how much longer a run takes than those of the tiny model: the stride grows by it
};

std::vector<Operation> all_operations(const Files& files);
/// Those of them about sessions and caches (session_operations.cpp).
std::vector<Operation> session_operations(const Files& files);
/// Those about conversations (chat_operations.cpp).
std::vector<Operation> chat_operations(const Files& files);
/// Those about encoders' tokenizers, scores and embeddings (score_operations.cpp).
std::vector<Operation> score_operations(const Files& files);
/// And about encoders (encoder_operations.cpp).
std::vector<Operation> encoder_operations();
/// A runtime of one thread.
qinfer_runtime* make_runtime();

/// Throws std::runtime_error with the message unless the call, which passes &err, succeeds.
#define MUST(call)                                                                            \
  do {                                                                                        \
    qinfer_error err = {};                                                                    \
    if ((call) != QINFER_OK) throw std::runtime_error(#call ": " + std::string(err.message)); \
  } while (0)

template <typename T>
T sized() {
  T value = {};
  value.struct_size = sizeof(T);
  return value;
}

/// The call under test.
template <typename Call>
qinfer_status faulty(Call call) {
  faults_begin();
  const qinfer_status status = call();
  faults_end();
  return status;
}

}  // namespace qinfer::faults
