// The bounds of a rendering hold whatever a template does: memory is what was promised, also of what is still being
// written, and all work is counted in steps of about the same time, so that it ends and can be cancelled.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "jinja/builtins.h"
#include "jinja/support.h"
#include "support/catch.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

constexpr std::uint64_t kMiB = 1 << 20;

/// Bytes that "Name:   1234 kB" of /proc/self/status says.
std::uint64_t status_bytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::stoull(line.substr(name.size() + 1)) * 1024;
  return 0;
}

/// Renders, and returns by how much the memory of the process grew at most.
std::uint64_t memory_of(const std::string& source, ChatResult& result) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const std::uint64_t before = status_bytes("VmRSS:");
  result = render_chat(source, R"({"messages": [{"role": "user", "content": "x"}]})");
  return status_bytes("VmHWM:") - std::min(before, status_bytes("VmHWM:"));
}

/// Of the CPU: what others take of a busy machine is not the template's.
double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double thread_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

#ifdef QINFER_SANITIZED
constexpr bool kIsMeasured = false;  // sanitizers take time and memory of their own
#else
constexpr bool kIsMeasured = true;
#endif

struct Cost {
  double seconds = 0;
  std::uint64_t steps = 0;
};

Cost cost_of(const std::string& source, const std::string& variables) {
  const double begin = thread_seconds();
  const ChatResult result = render_chat(source, variables);
  return {thread_seconds() - begin, result.ok() ? result.rendered.steps : 0};
}

/// Template code that makes a text t of about so many bytes and a short list l.
std::string texts_of(std::size_t size) {
  const std::string_view unit = "ab 1{}é\\n%";
  return fmt::format("{{% set l = ['b', 'a'] %}}{{% set t = '{}' * {} %}}", unit, size / unit.size());
}

/// Expressions that call each filter and method with the text, in all the ways that their arguments may be.
std::vector<std::string> calls_of_builtins() {
  std::vector<std::string> calls;
  const auto add = [&](const std::string& begin, const char* name) {
    for (const char* arguments : {"()", "('b')", "(t)", "('b', 'c')", "(t, t)", "(3)", "('b', t, 3)"})
      calls.push_back(begin + name + arguments);
  };
  for (const auto rows : {jinja::text_filters(), jinja::list_filters(), jinja::other_filters()})
    for (const jinja::BuiltinRow& row : rows) {
      add("t|", row.name);
      add("l|", row.name);
    }
  for (const jinja::MethodRow& row : jinja::text_methods()) add("t.", row.name);
  for (const char* more : {"t in t", "t == t ~ 'b'", "t ~ t", "t % t", "t[::2]", "t[3:-3]", "l|list == l", "t|length"})
    calls.emplace_back(more);
  return calls;
}

bool is_of_the_text_alone(const std::string& call) {
  return call.starts_with('t') && (call.ends_with("()") || call.find('(') == call.npos);
}

struct StoppedAfter {
  Code code = Code::ok;
  double seconds = 0;  ///< of the CPU, from the request on
};

/// Renders, and asks it to stop once it has taken so many seconds of the CPU.
StoppedAfter stop_after(const std::string& source, double seconds) {
  clockid_t clock{};
  pthread_getcpuclockid(pthread_self(), &clock);
  std::atomic<bool> flag = false, is_over = false;
  double requested = 0;
  const double begin = thread_seconds();
  std::jthread other([&] {
    while (!is_over && seconds_of(clock) - begin < seconds) std::this_thread::sleep_for(std::chrono::microseconds(500));
    flag = true;
    requested = seconds_of(clock);  // after it: who waits for the CPU in between is not late
  });
  const ChatResult result = render_chat(source, "{}", true, {}, &flag);
  const double end = thread_seconds();
  is_over = true;
  other.join();
  return {result.code, end - std::min(end, requested)};
}

}  // namespace

TEST_CASE("chat bounds: memory of open texts, marks and lists counts", "[chat]") {
  const std::string text = "{% set t = 'a' * 1000000 %}";
  const std::string nested = [&] {
    std::string out = text, end;
    for (int i = 0; i < 20; ++i) {
      out += "{% set x %}" + std::string("{% for i in range(60) %}{{ t }}{% endfor %}");
      end += "{% endset %}";
    }
    return out + end;
  }();
  for (const std::string& source :
       {text + "{% macro m(n) %}{% for i in range(120) %}{{ t }}{% endfor %}{% if n %}{{ m(n-1) }}{% endif %}"
               "{% endmacro %}{% set x = m(60) %}x",
        nested, std::string("{{ (('x' ~ messages[0].content[0]) * 10000000)|length }}"),
        std::string("{% macro m(n) %}{{ ('x' ~ messages[0].content[0]) * 1000000 }}{% if n %}{{ m(n-1) }}{% endif %}"
                    "{% endmacro %}{% set x = m(60) %}x"),
        std::string("{{ (range(90000)|list * 100)|map('string')|list|length }}"),
        std::string("{{ (range(90000)|list * 25)|sort|length }}"),
        std::string("{{ (range(90000)|list * 25)|sort(attribute='x')|length }}")}) {
    ChatResult result;
    const std::uint64_t grown = memory_of(source, result);
    INFO(source.substr(0, 200) << ": " << result.message);
    CHECK(result.code == Code::buffer_too_small);
    CHECK((!kIsMeasured || grown <= 128 * kMiB + 16 * kMiB));
  }
}

TEST_CASE("chat bounds: what scans a text counts it", "[chat]") {
  const std::string big = "{% set t = 'a' * 8000000 %}{% for i in range(100000) %}";
  for (const char* call :
       {"t|int", "t|float", "t|int(base=36)", "t.zfill(3)", "t.removeprefix(t ~ 'b')", "t.removesuffix(t)",
        "t|filesizeformat", "[{}]|map(attribute=t)|list", "t.isalpha()", "t|wordcount", "t|length", "t[7000000]"}) {
    const ChatResult result = render_chat(big + "{% set x = " + call + " %}{% endfor %}");
    INFO(call << ": " << result.message);
    CHECK(!result.ok());
  }
  // The work of these grew with the square of their size.
  for (const char* source :
       {"{{ ('{}' * 100000).format(*range(100000))|length }}", "{{ ('{a}' * 300000).format(**{'a': 1})|length }}",
        "{{ ('{a.b}{a[b]}' * 100000).format(a={'b': 1})|length }}"}) {
    const Cost cost = cost_of(source, "{}");
    INFO(source << ": " << cost.seconds << " s");
    CHECK(cost.steps > 0);
    CHECK((!kIsMeasured || cost.seconds < 5));
  }
}

TEST_CASE("chat bounds: a step of every builtin takes about the same time", "[chat]") {
  for (const std::size_t size : {kMiB, 8 * kMiB}) {
    const std::string begin = texts_of(size);
    const Cost nothing = cost_of(begin, "{}");
    for (const std::string& call : calls_of_builtins()) {
      // The larger one shows what grows with the square.
      if (size > kMiB && !is_of_the_text_alone(call)) continue;
      const Cost cost = cost_of(begin + "{% set x = " + call + " %}", "{}");
      if (cost.steps == 0) continue;  // refused, for other arguments are right; or too many steps
      const double seconds = cost.seconds - nothing.seconds, steps = static_cast<double>(cost.steps - nothing.steps);
      INFO(call << " of " << size << " bytes: " << seconds << " s, " << steps << " steps");
      // A microsecond for each, and one look at the request to stop within 50 ms.
      CHECK((!kIsMeasured || seconds <= 0.05 + 1e-6 * steps));
    }
  }
}

TEST_CASE("chat bounds: every builtin sees a request to stop within 50 ms", "[chat]") {
  const auto source_of = [](std::size_t size, const std::string& call) {
    return texts_of(size) + (call.empty() ? "" : "{% set x = " + call + " %}");
  };
  int stopped = 0;
  for (const std::string& call : calls_of_builtins()) {
    if (!is_of_the_text_alone(call)) continue;
    // What needs too much memory of the larger text may have enough for the smaller one.
    std::size_t size = 24 * kMiB;
    Cost whole = cost_of(source_of(size, call), "{}");
    if (whole.steps == 0) whole = cost_of(source_of(size = 12 * kMiB, call), "{}");
    const double nothing = cost_of(source_of(size, ""), "{}").seconds;
    // What is over before, or soon after, tells nothing.
    if (whole.seconds < nothing + 0.1) continue;
    const StoppedAfter result = stop_after(source_of(size, call), nothing + (whole.seconds - nothing) / 3);
    INFO(call << ": " << whole.seconds << " s in all, " << result.seconds << " s after the request");
    CHECK((!kIsMeasured || result.seconds <= 0.05));
    stopped += result.code == Code::cancelled ? 1 : 0;
  }
  CHECK((!kIsMeasured || stopped > 0));
}

TEST_CASE("chat bounds: integers at the ends of 64 bits", "[chat]") {
  const std::string least = "(-9223372036854775807 - 1)", most = "9223372036854775807";
  const auto text = [](const std::string& expression) {
    const ChatResult result = render_chat("{{ " + expression + " }}");
    return result.ok() ? result.text() : result.message;
  };
  CHECK(text("range(" + least + ", " + most + ", " + most + ")|length") == "3");
  CHECK(text("range(" + least + ", " + most + ", " + most + ")|list") ==
        "[-9223372036854775808, -1, 9223372036854775806]");
  CHECK(text("range(0, " + least + ", " + least + ")|length") == "1");
  CHECK(text("range(" + most + ", " + least + ", " + least + ")|list") == "[9223372036854775807, -1]");
  CHECK(text("9223372036854775806 in range(" + least + ", " + most + ", " + most + ")") == "True");
  CHECK(text("0 in range(" + least + ", " + most + ", " + most + ")") == "False");
  CHECK(text("range(" + least + ", " + most + ", " + most + ")[2]") == "9223372036854775806");
  CHECK(text("range(" + least + ", " + most + ", " + most + ")[::2]|list") ==
        "[-9223372036854775808, 9223372036854775806]");
  // Parts of a range, whose step may have more than 64 bits.
  CHECK(text("-9223372036854775807 in range(-9223372036854775807, " + most + ", 4611686018427387904)[::4]") == "True");
  CHECK(text("range(" + least + ", " + most + ", 4611686018427387904)[::3]|list") ==
        "[-9223372036854775808, 4611686018427387904]");
  CHECK(text("-4611686018427387904 in range(" + least + ", " + most + ", 4611686018427387904)[::3]") == "False");
  CHECK(text("4611686018427387904 in range(" + least + ", " + most + ", 4611686018427387904)[::3]") == "True");
  CHECK(text("[3 in range(0, 10, 3), 4 in range(0, 10, 3), 7 in range(10, 0, -3), 6 in range(10, 0, -3)]") ==
        "[True, False, True, False]");
  CHECK(text("'abc'.zfill(" + least + ")") == "abc");
  CHECK(text("'%.*s' % (-1, 'abc')").empty());
  CHECK(text("(0 - 10.0 ** 300)|filesizeformat").find("64 bits") != std::string::npos);
  CHECK(text("'%*d' % (" + least + ", 5)").find("too big") != std::string::npos);
  CHECK(text("'a-b-c'.replace('-', '', " + least + ")") == "abc");
  CHECK(text("'abc'.replace('', '-', " + least + ")") == "-a-b-c-");
  CHECK(text("'a b c'.split(' ', " + least + ")") == "['a', 'b', 'c']");
  CHECK(text("'a b c'.split(none, " + least + ")") == "['a', 'b', 'c']");
  CHECK(text("'a b c'.rsplit(none, " + least + ")") == "['a', 'b', 'c']");
}
