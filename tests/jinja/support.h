// What the tests of chat templates share: rendering with variables that are given as JSON.
#pragma once

#include <string>
#include <string_view>

#include "base/cancel.h"
#include "formats/json.h"
#include "jinja/template.h"

namespace qinfer::test {

/// The date that the fixtures were made at.
inline jinja::Date fixture_date() {
  jinja::Date date;
  date.year = 2024, date.month = 7, date.day = 26, date.hour = 9, date.minute = 5, date.second = 7;
  return date;
}

struct ChatResult {
  Code code = Code::ok;
  std::int64_t detail = 0;
  std::string message;  ///< of the error
  jinja::Rendered rendered;
  bool ok() const { return code == Code::ok; }
  const std::string& text() const { return rendered.text; }
};

inline ChatResult failed_with(Status status) {
  ChatResult result;
  result.code = status.code();
  result.detail = status.detail();
  result.message = status.message();
  return result;
}

inline ChatResult render_chat(std::string_view source, std::string_view variables = "{}", bool has_date = true,
                              const jinja::Limits& limits = {}, CancelFlag cancel = {}) {
  auto compiled = jinja::Template::compile(source);
  if (!compiled.ok()) return failed_with(compiled.take_status());
  auto parsed = formats::parse_json(variables, "variables");
  if (!parsed.ok()) return failed_with(parsed.take_status());
  const jinja::Date date = fixture_date();
  jinja::RenderOptions options;
  options.now = has_date ? &date : nullptr;
  options.limits = limits;
  options.cancel = cancel;
  auto rendered = compiled.value().render(parsed.value().root(), options);
  if (!rendered.ok()) return failed_with(rendered.take_status());
  ChatResult result;
  result.rendered = std::move(rendered.value());
  return result;
}

}  // namespace qinfer::test
