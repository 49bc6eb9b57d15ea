// How much of a thread's stack compiling and rendering a chat template takes, however deep it nests: the library
// promises that no call needs more than 64 KiB, and this is one part of a call. Sanitizers make frames larger, so there
// the templates run and nothing is measured.
#include <pthread.h>
#include <sys/mman.h>

#include <cstring>

#include "jinja/support.h"
#include "support/catch.h"

namespace {

using namespace qinfer::test;

constexpr std::size_t kStack = std::size_t{4} << 20, kMost = 56 * 1024;
constexpr unsigned char kPattern = 0xA5;

void* render_on_thread(void* source) {
  (void)render_chat(*static_cast<const std::string*>(source), R"({"s": 1})");
  return nullptr;
}

/// Bytes of a thread's stack that the template touches.
std::size_t stack_of(const std::string& source) {
  auto* stack = static_cast<unsigned char*>(
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
  REQUIRE(stack != MAP_FAILED);
  std::memset(stack, kPattern, kStack);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStack);
  pthread_t thread;
  std::string copy = source;
  REQUIRE(pthread_create(&thread, &attributes, render_on_thread, &copy) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  std::size_t untouched = 0;
  while (untouched < kStack && stack[untouched] == kPattern) ++untouched;
  munmap(stack, kStack);
  return kStack - untouched;
}

std::string nested(const std::string& begin, const std::string& middle, const std::string& end, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += begin;
  out += middle;
  for (std::size_t i = 0; i < n; ++i) out += end;
  return out;
}

}  // namespace

TEST_CASE("chat stack: deep templates and values stay on a small stack", "[chat]") {
  const std::string deep =
      "{% set ns = namespace(x=[]) %}{% for i in range(96) %}{% set ns.x = {'a': ns.x} if i % 2 else [ns.x] %}{% "
      "endfor %}";
  const std::string sources[] = {
      "{{ " + nested("(", "1", ")", 47) + " }}",
      "{{ " + nested("{1: [", "1", "]}", 23) + " }}",
      "{{ " + nested("1|default(", "1", ")", 47) + " }}",
      "{{ " + nested("1 is eq(", "1", ")", 47) + " }}",
      "{{ " + nested("dict(a=", "1", ")", 47) + " }}",
      "{{ " + nested("s[", "1", "]", 47) + " }}",
      "{{ " + nested("1 or 1 and not 1 == 1 + 1 ~ 1 * (", "1", ")", 14) + " }}",
      nested("{% if 1 %}", "", "{% endif %}", 47),
      nested("{% for x in [1] %}{% else %}", "", "{% endfor %}", 47),
      nested("{% macro m(a=1) %}", "", "{% endmacro %}", 47),
      nested("{% call range(1) %}", "", "{% endcall %}", 47),
      nested("{% set x %}", "", "{% endset %}", 47),
      nested("{% if 1 %}", "{{ " + nested("1|default(", "1", ")", 23) + " }}", "{% endif %}", 23),
      deep + "{{ ns.x }}{{ ns.x|tojson(indent=1, sort_keys=true) }}{{ [ns.x]|map('string')|unique|list }}",
      deep + "{{ ns.x == ns.x }}{{ '%r' % [ns.x] }}{{ '{!r}'.format([ns.x]) }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{{ range(50000)|map('string')|sort|length }}",
      nested("{% if 1 %}", "", "{% endif %}", 20000),
  };
  for (const std::string& source : sources) {
    CAPTURE(source.substr(0, 100));
#ifdef QINFER_SANITIZED
    CHECK(stack_of(source) > 0);
#else
    CHECK(stack_of(source) <= kMost);
#endif
  }
}
