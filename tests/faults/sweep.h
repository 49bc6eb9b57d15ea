// Runs every operation once for each way in which something can fail. Each operation has a child process of its own,
// which is forked before any thread exists: where it ends or hangs, the parent names the call and the case that did it
// and goes on with the next case in a new child. A call must return a status and a message, leave no memory, mapping,
// file descriptor or file that was not there, and succeed with the same result as before once nothing fails any more.
#pragma once

#include <cstddef>
#include <string>

#include "operations.h"

namespace qinfer::faults {

/// What a program makes fail.
class Injector {
 public:
  virtual ~Injector() = default;
  /// From the next faults_begin() on calls are counted, and none fails.
  virtual void count() = 0;
  /// How many cases follow from what was counted last, taking one of `stride` of the requests.
  virtual std::size_t cases(long stride) = 0;
  virtual void arm(std::size_t index) = 0;
  virtual std::string describe(std::size_t index) const = 0;
  /// What the counted call asked for, for the line that reports it: "312 requests".
  virtual std::string counted() const = 0;
  /// What is wrong with this status under the present case, or nothing.
  virtual std::string judge(qinfer_status status, const qinfer_error& err) const = 0;
  /// Whether the present case keeps temporary files from being removed.
  virtual bool keeps_temporaries() const { return false; }
};

/// 0 if all is well. Prints a line for each operation, and one for each failure.
int sweep(Injector& injector, const Files& files, long stride);

/// main() of both programs: reads the arguments and writes the models.
int run_program(int argc, char** argv, Injector& injector);

}  // namespace qinfer::faults
