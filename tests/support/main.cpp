// main() of the tests: Catch2's, with an exit status for tests that were skipped (skip.h), and with failure for tests
// that passed because nothing in them ran.
#define CATCH_CONFIG_RUNNER
#include "support/catch.h"

#include <cstddef>
#include <iostream>

#include "support/skip.h"

namespace {

constexpr int kSkippedStatus = 77;  // SKIP_RETURN_CODE in CMakeLists.txt

struct Run {
  bool skipping = false;  ///< the test case that runs has called skip()
  std::size_t ended = 0, skipped = 0, wrong = 0;
} run;

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using ListenerBase = Catch::EventListenerBase;
const std::string& name_of(const Catch::TestCaseStats& stats) { return stats.testInfo->name; }
#else
using ListenerBase = Catch::TestEventListenerBase;
const std::string& name_of(const Catch::TestCaseStats& stats) { return stats.testInfo.name; }
#endif

class Listener : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    ListenerBase::testCaseStarting(info);
    run.skipping = false;
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    ListenerBase::testCaseEnded(stats);
    ++run.ended;
    if (run.skipping) ++run.skipped;
    const bool checked = stats.totals.assertions.total() > 0;
    if (checked != run.skipping) return;
    ++run.wrong;
    std::cout << "FAILED: \"" << name_of(stats) << "\" "
              << (checked ? "checked something before it skipped" : "checked nothing and did not say that it skips")
              << std::endl;
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(Listener)

void qinfer::test::skip(Missing missing, std::string_view reason) {
  if (run.skipping) return;  // with each value of a generator, say: one line for a test case
  run.skipping = true;
  const char* kind = missing == Missing::cpu ? "CPU" : missing == Missing::data ? "data" : "machine";
  std::cout << "skipped: " << kind << ": " << reason << std::endl;
}

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
#if !defined(CATCH_VERSION_MAJOR) || CATCH_VERSION_MAJOR < 3  // later versions fail without being asked
  session.configData().warnings =
      static_cast<Catch::WarnAbout::What>(session.configData().warnings | Catch::WarnAbout::NoTests);
#endif
  const int status = session.run();
  if (run.ended == 0) return status;  // tests were listed, or there are none of that name
  // Not the number of failures, which could be that of a skip.
  if (status != 0 || run.wrong > 0) return 1;
  if (run.skipped > 0 && run.skipped < run.ended) std::cout << run.skipped << " of " << run.ended << " skipped\n";
  return run.skipped == run.ended ? kSkippedStatus : 0;
}
