// A model's own chat template: jinja2's language as transformers sets it up (trim_blocks, lstrip_blocks, break and
// continue, {% generation %}, its tojson), run by an interpreter that reaches nothing outside: no files, no other
// templates, no clock but the date that it is given, no attributes but those named here.
//
// What it renders says of every byte where it came from: the template, or the conversation. So whoever turns it into
// tokens can keep what people wrote from becoming a control token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/span.h"
#include "base/status.h"
#include "formats/json.h"
#include "jinja/limits.h"

namespace qinfer::jinja {

struct Program;

/// A date in the calendar that the caller goes by.
struct Date {
  int year = 1970;         ///< 1 to 9999
  int month = 1, day = 1;  ///< both from 1
  int hour = 0, minute = 0, second = 0, microsecond = 0;
  std::string zone;    ///< what %Z writes
  int utc_offset = 0;  ///< seconds east of Greenwich, for %z
  bool has_utc_offset = false;
};

/// A variable beside those of a JSON object: a text, or true.
struct AddedVariable {
  std::string_view name;
  std::optional<std::string> text;
};

struct RenderOptions {
  /// What strftime_now() tells. Null: the template does not find that function.
  const Date* now = nullptr;
  /// Variables whose texts are the template's own, such as the special tokens. Those of transformers by default.
  std::vector<std::string> template_variables = default_template_variables();
  std::vector<AddedVariable> added;  ///< the object has none of their names
  Limits limits;
  CancelFlag cancel{};

  static std::vector<std::string> default_template_variables();
};

struct Rendered {
  std::string text;
  /// What came from the conversation: ascending, apart from each other. All else is the template's.
  std::vector<Span> content;
  /// What was written inside {% generation %}: ascending, apart from each other.
  std::vector<Span> generated;
  std::uint64_t steps = 0;  ///< how much work it was
};

/// The detail of the Status of a template that called raise_exception(): its message is what the template said.
inline constexpr std::int64_t kRaisedByTemplate = -1;

/// A template that is ready to run. Any number of threads may render with it at a time.
class Template {
 public:
  /// QINFER_E_FORMAT for what is no template, QINFER_E_UNSUPPORTED for what is refused by name; messages give line and
  /// column, and detail is the line.
  static Result<Template> compile(std::string_view source);

  /// `variables` is an object. QINFER_E_INVALID_ARGUMENT where the template fails on them, with detail
  /// kRaisedByTemplate if it said so itself, otherwise the line; QINFER_E_UNSUPPORTED for what is refused;
  /// QINFER_E_BUFFER_TOO_SMALL beyond a bound of Limits.
  Result<Rendered> render(const formats::Json& variables, const RenderOptions& options) const;

  /// Whether it has {% generation %}.
  bool marks_generation() const;
  /// Whether the template reads this variable anywhere.
  bool mentions(std::string_view variable) const;

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

 private:
  explicit Template(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

}  // namespace qinfer::jinja
