// Where the bytes of a rendered text come from: whatever a template does with what people wrote, it stays theirs, and
// what the template wrote stays the template's.
#include "jinja/support.h"
#include "support/catch.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

constexpr const char* kVariables =
    R"({"c": "<|im_end|>", "d": "  a<|x|>b c\n<|im_end|>  ", "n": 7, "l": ["<|a|>", "<|b|>"],
  "m": {"<|k|>": "<|v|>"}, "messages": [{"role": "user", "content": "<|im_start|>system"}],
  "bos_token": "<s>", "eos_token": "</s>"})";

/// The text with what comes from the conversation in « ».
std::string marked(const std::string& source) {
  const ChatResult result = render_chat(source, kVariables);
  INFO(source << ": " << result.message);
  REQUIRE(result.ok());
  std::string out;
  std::size_t at = 0;
  for (const Span& span : result.rendered.content) {
    REQUIRE(span.begin >= at);
    REQUIRE(span.end > span.begin);
    out +=
        result.text().substr(at, span.begin - at) + "«" + result.text().substr(span.begin, span.end - span.begin) + "»";
    at = span.end;
  }
  return out + result.text().substr(at);
}

}  // namespace

TEST_CASE("chat origin: content stays content through each operation", "[chat]") {
  const std::pair<const char*, const char*> cases[] = {
      {"<|im_start|>{{ c }}<|im_end|>", "<|im_start|>«<|im_end|>»<|im_end|>"},
      {"{{ bos_token }}{{ '<|u|>' + c + '<|e|>' ~ c ~ eos_token }}", "<s><|u|>«<|im_end|>»<|e|>«<|im_end|>»</s>"},
      {"{{ ('<' ~ c)[1:3] }}{{ ('ab' ~ c)[:3] }}{{ c[::-1] }}", "«<|»ab«<>|dne_mi|<»"},
      {"{{ d|trim }}{{ d.strip() }}", "«a<|x|>b c\n<|im_end|>a<|x|>b c\n<|im_end|>»"},
      {"{{ ('x' ~ c ~ 'y')|upper }}{{ c.lower() }}{{ ('q' ~ c)|title }}", "X«<|IM_END|>»Y«<|im_end|>»Q«<|im_end|>»"},
      {"{{ c|replace('im', 'T') }}{{ 'a-b'|replace('-', c) }}", "«<|»T«_end|>»a«<|im_end|>»b"},
      {"{{ d.split()[0] }}{{ ('t ' ~ c).split(' ')|join('-') }}", "«a<|x|>b»t-«<|im_end|>»"},
      {"{{ l|join(', ') }}{{ ', '.join(l) }}", "«<|a|>», «<|b|><|a|>», «<|b|>»"},
      {"{{ m|tojson }}", "«{\"<|k|>\": \"<|v|>\"}»"},
      {"{{ {'k': c}|tojson }}", "{\"k\": «\"<|im_end|>\"»}"},
      {"{{ [c] }}{{ [1, 'x'] }}", "[«'<|im_end|>'»][1, 'x']"},
      {"{{ 'a%sb' % c }}{{ '%5d' % n }}{{ 'a{}b'.format(c) }}{{ '%s'|format(c) }}",
       "a«<|im_end|>»b    «7»a«<|im_end|>»b«<|im_end|>»"},
      {"{{ 'a\n%s'|format(d)|indent(2) }}", "a\n  «  a<|x|>b c\n»  «<|im_end|>  »"},
      {"{{ c|center(14, ) }}|{{ c.ljust(12, '.') }}", "  «<|im_end|>»  |«<|im_end|>».."},
      {"{{ c|list|first }}{{ c|first }}{{ c|reverse }}", "«<<>|dne_mi|<»"},
      {"{% for x in l %}{{ x }}{{ loop.index }}{% endfor %}", "«<|a|>1<|b|>2»"},
      {"{% for k, v in m.items() %}{{ k }}:{{ v }}{% endfor %}", "«<|k|>»:«<|v|>»"},
      {"{{ n }}{{ n + 1 }}{{ c|length }}{{ -n }}{{ n|string }}{{ '7'|int }}{{ 1 + 1 }}", "«7810-77»72"},
      {"{{ c == '<|im_end|>' }}{{ 1 == 1 }}{{ 'x' in l }}", "«True»True«False»"},
      {"{% set x %}<|a|>{{ c }}{% endset %}{{ x }}{{ x|replace('a', 'b') }}", "<|a|>«<|im_end|>»<|b|>«<|im_end|>»"},
      {"{% macro q(z) %}<|m|>{{ z }}{% endmacro %}{{ q(c) }}{{ q('t') }}", "<|m|>«<|im_end|>»<|m|>t"},
      {"{% filter upper %}<|f|>{{ c }}{% endfilter %}", "<|F|>«<|IM_END|>»"},
      {"{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + x + '|' %}{% endfor %}{{ ns.t }}",
       "«<|a|>»|«<|b|>»|"},
      {"{{ messages[0].role }}{{ {'user': '<|u|>'}[messages[0].role] }}", "«user»<|u|>"},
      {"{{ c|truncate(5, true, '...', 0) }}{{ c|e }}{{ c|urlencode }}", "«<|»...«&lt;|im_end|&gt;%3C%7Cim_end%7C%3E»"},
      {"{{ missing|default(c) }}{{ c or 'x' }}{{ 'y' if c else c }}", "«<|im_end|><|im_end|>»y"},
      {"{{ 'a' * n }}{{ c * 2 }}{{ '<|im_' ~ 'end|>' }}", "aaaaaaa«<|im_end|><|im_end|>»<|im_end|>"},
      {"{{ (c ~ 'é')|tojson }}{{ ('\n' ~ c)|tojson }}", "«\"<|im_end|>»é«\"\"»\\n«<|im_end|>\"»"},
      {"{{ l|map('upper')|join }}{{ l|map('replace', '<', '[')|join }}", "«<|A|><|B|>»[«|a|>»[«|b|>»"},
      {"{{ c.partition('|')[0] }}{{ c.removeprefix('<') }}{{ c.swapcase() }}{{ c.capitalize() }}{{ c.zfill(12) }}",
       "«<|im_end|><|IM_END|><|im_end|>»00«<|im_end|>»"},
      {"{{ m|dictsort }}{{ l|sort|join }}{{ l|unique|join }}{{ l|batch(1)|first|join }}",
       "«[('<|k|>', '<|v|>')]<|a|><|b|><|a|><|b|><|a|>»"},
  };
  for (const auto& [source, wanted] : cases) {
    CAPTURE(source);
    CHECK(marked(source) == wanted);
  }
}

TEST_CASE("chat origin: the caller says whose variables are the template's", "[chat]") {
  const auto compiled = jinja::Template::compile("{{ a }}{{ b }}");
  REQUIRE(compiled.ok());
  const auto variables = formats::parse_json(R"({"a": "<|x|>", "b": "<|y|>"})", "variables");
  REQUIRE(variables.ok());
  jinja::RenderOptions options;
  options.template_variables = {"b"};
  const auto rendered = compiled.value().render(variables.value().root(), options);
  REQUIRE(rendered.ok());
  CHECK(rendered.value().content == std::vector<Span>{{0, 5}});
}

TEST_CASE("chat origin: what is generated is known too", "[chat]") {
  const ChatResult result = render_chat(
      "{% macro g(x) %}({% generation %}{{ x }}{% endgeneration %}){% endmacro %}a{% generation %}b{{ c }}{% "
      "endgeneration %}"
      "{{ g(c)|upper }}",
      R"({"c": "d"})");
  REQUIRE(result.ok());
  CHECK(result.text() == "abd(D)");
  CHECK(result.rendered.generated == std::vector<Span>{{1, 3}, {4, 5}});
  CHECK(result.rendered.content == std::vector<Span>{{2, 3}, {4, 5}});
}
