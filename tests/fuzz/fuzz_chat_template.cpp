// Fuzzes chat templates: the input is a template as it is, or chooses pieces of one; what compiles is rendered with a
// conversation that holds all types of values. Bounds are small, so that a template which uses them up does so soon;
// that they hold is looked at too, of memory by the sanitizer's hooks and of time by the CPU's clock.
#include "jinja/template.h"

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>

#include "choices.h"

namespace {

using qinfer::fuzz::Choices;

constexpr std::string_view kVariables =
    R"({"messages": [{"role": "user", "content": "<|im_end|> é日本 \"q\" 'x' %s {0}"},
  {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"a": [1, 2.5, true, null, {}]}}]}],
  "tools": [{"function": {"name": "g", "x": {"y": {"z": []}}}}], "n": 7, "f": -1.5e300, "big": 12345678901234567890,
  "s": "a b  c\n\td", "e": "", "l": [3, 1, 2], "t": true, "bos_token": "<s>"})";

constexpr const char* kPieces[] = {"{{ ",
                                   " }}",
                                   "{% ",
                                   " %}",
                                   "{%- ",
                                   " -%}",
                                   "{{- ",
                                   " -}}",
                                   "{# ",
                                   " #}",
                                   "{% raw %}",
                                   "{% endraw %}",
                                   "for x in ",
                                   "endfor",
                                   "else",
                                   "if ",
                                   "elif ",
                                   "endif",
                                   "set x = ",
                                   "set x",
                                   "endset",
                                   "macro m(a, b=1)",
                                   "endmacro",
                                   "call m(1)",
                                   "call(q) m()",
                                   "endcall",
                                   "filter ",
                                   "endfilter",
                                   "with a = ",
                                   "endwith",
                                   "generation",
                                   "endgeneration",
                                   "block b",
                                   "endblock",
                                   "break",
                                   "continue",
                                   " recursive",
                                   "set ns.a = ",
                                   "namespace(a=1)",
                                   "loop",
                                   "loop(x)",
                                   "loop.index",
                                   "loop.last",
                                   "loop.changed(x)",
                                   "loop.cycle(1, 2)",
                                   "caller()",
                                   "varargs",
                                   "kwargs",
                                   "m(x)",
                                   "m()",
                                   "messages",
                                   "tools",
                                   "n",
                                   "f",
                                   "big",
                                   "s",
                                   "e",
                                   "l",
                                   "t",
                                   "x",
                                   "missing",
                                   "ns",
                                   "bos_token",
                                   "messages[0].content",
                                   "1",
                                   "0",
                                   "-1",
                                   "2.5",
                                   "1e308",
                                   "9223372036854775807",
                                   "100000",
                                   "'a'",
                                   "'%s %d'",
                                   "'{} {0!r:>9}'",
                                   "\"\\u00df\"",
                                   "[",
                                   "]",
                                   "(",
                                   ")",
                                   "{",
                                   "}",
                                   ", ",
                                   ": ",
                                   ".",
                                   "|",
                                   " ~ ",
                                   " + ",
                                   " - ",
                                   " * ",
                                   " / ",
                                   " // ",
                                   " % ",
                                   " ** ",
                                   " == ",
                                   " < ",
                                   " >= ",
                                   " in ",
                                   " not in ",
                                   " and ",
                                   " or ",
                                   " not ",
                                   " is ",
                                   " is not ",
                                   " if ",
                                   " else ",
                                   "=",
                                   "[1:]",
                                   "[::-1]",
                                   "[0]",
                                   "[-1]",
                                   "['a']",
                                   "**",
                                   "*",
                                   "range(9)",
                                   "range(100000)",
                                   "dict(a=1)",
                                   "cycler(1, 2)",
                                   "joiner()",
                                   "raise_exception('x')",
                                   "strftime_now('%Y %c')",
                                   "true",
                                   "none",
                                   "__class__",
                                   "append",
                                   "items()",
                                   "keys()",
                                   "get('a')",
                                   "split()",
                                   "split('a', 1)",
                                   "strip()",
                                   "replace('a', 'bb')",
                                   "upper()",
                                   "title()",
                                   "format(1, x)",
                                   "join(l)",
                                   "center(99)",
                                   "zfill(9)",
                                   "find('a')",
                                   "rsplit(' ', 1)",
                                   "splitlines()",
                                   "startswith('a')",
                                   "partition(' ')",
                                   "tojson",
                                   "tojson(indent=2)",
                                   "trim",
                                   "upper",
                                   "length",
                                   "list",
                                   "first",
                                   "last",
                                   "join(',')",
                                   "map('upper')",
                                   "map(attribute='role')",
                                   "select('string')",
                                   "selectattr('role')",
                                   "sort",
                                   "unique",
                                   "reverse",
                                   "groupby('role')",
                                   "batch(2)",
                                   "slice(2)",
                                   "indent(2, true)",
                                   "truncate(5)",
                                   "default('d')",
                                   "items",
                                   "dictsort",
                                   "int",
                                   "float",
                                   "round(2)",
                                   "string",
                                   "safe",
                                   "e",
                                   "sum",
                                   "max",
                                   "min",
                                   "replace('', 'z')",
                                   "wordcount",
                                   "title",
                                   "center(9)",
                                   "format(1)",
                                   "urlencode",
                                   "striptags",
                                   "attr('x')",
                                   "defined",
                                   "string",
                                   "mapping",
                                   "iterable",
                                   "none",
                                   "odd",
                                   "in l",
                                   "eq 1",
                                   "text",
                                   "\n",
                                   "  ",
                                   "é"};

constexpr std::uint64_t kSteps = 200000, kOutput = 1 << 20, kMemory = 8 << 20;

// What the process has allocated; hooks may be called before any constructor.
std::atomic<std::int64_t> live_bytes = 0, most_bytes = 0;

void on_malloc(const volatile void*, std::size_t size) {
  live_bytes += static_cast<std::int64_t>(size);
  most_bytes = std::max(most_bytes.load(), live_bytes.load());
}
void on_free(const volatile void* memory) {
  live_bytes -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(memory));
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Traps where what began at `begin`, when so many bytes were allocated, has taken more than a rendering may: its
/// values and its text, some room for what grows, and ten microseconds for each step in this slow build.
void check_cost(const char* what, double begin, std::int64_t before) {
  const double seconds = thread_seconds() - begin;
  const std::int64_t bytes = most_bytes - before;
  if (seconds <= 1e-5 * kSteps && bytes <= static_cast<std::int64_t>(kMemory + 2 * kOutput)) return;
  std::fprintf(stderr, "%s took %.3f s and %lld bytes\n", what, seconds, static_cast<long long>(bytes));
  __builtin_trap();
}

std::string make_source(Choices choices) {
  if (choices.byte() % 4 == 0) return choices.text(4096);
  std::string source;
  while (!choices.done() && source.size() < 8192) source += choices.of(kPieces);
  return source;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace qinfer;
  static const auto variables = formats::parse_json(kVariables, "variables");
  static const int hooks = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  if (hooks == 0) __builtin_trap();
  const std::string source = make_source(Choices({reinterpret_cast<const char*>(data), size}));
  const std::int64_t before = live_bytes;
  most_bytes = before;
  double begin = thread_seconds();
  const auto compiled = jinja::Template::compile(source);
  check_cost("compiling", begin, before);
  if (!compiled.ok()) return 0;
  const jinja::Date date;
  jinja::RenderOptions options;
  options.now = &date;
  options.limits = {kSteps, kOutput, kMemory};
  begin = thread_seconds();
  const auto rendered = compiled.value().render(variables.value().root(), options);
  check_cost("rendering", begin, before);
  if (!rendered.ok()) return 0;
  const jinja::Rendered& result = rendered.value();
  std::size_t last = 0;
  for (const Span& span : result.content) {
    if (span.begin > span.end || span.begin < last || span.end > result.text.size()) __builtin_trap();
    last = span.end;
  }
  return 0;
}
