// See template.h: from a source to a program, from JSON to variables, and from the machine's output to spans.
#include "jinja/template.h"

#include <algorithm>

#include "jinja/compare.h"
#include "jinja/lexer.h"
#include "jinja/machine.h"
#include "jinja/parser.h"
#include "jinja/source_place.h"
#include "text/utf8.h"

namespace qinfer::jinja {
namespace {

Value read_scalar(Run& run, const formats::Json& json, Marks marks) {
  switch (json.type()) {
    case formats::JsonType::boolean: return boolean_value(json.boolean(), marks);
    case formats::JsonType::integer: return integer_value(json.integer(), marks);
    case formats::JsonType::string: return run.text_in_place(json.text(), marks);
    case formats::JsonType::number: {
      if (json.spelling().empty()) return number_value(json.number(), marks);
      Value value = run.text_in_place(json.spelling(), 0);
      value.kind = Kind::big_integer;
      value.marks = marks;
      return value;
    }
    default: break;
  }
  Value value = none_value();
  value.marks = marks;
  return value;
}

/// JSON as a value. Its nesting is at most formats::kMaxJsonDepth.
Value read_json(Run& run, const formats::Json& json, Marks marks) {
  if (json.is_array()) {
    ListBuilder items(run);
    for (const formats::Json& item : json) items.add(read_json(run, item, marks));
    return items.finish(marks);
  }
  if (!json.is_object()) return read_scalar(run, json, marks);
  Dict* dict = run.make(Dict{});
  for (const formats::Json& member : json)
    set(run, *dict, run.text_in_place(member.key(), marks), read_json(run, member, marks));
  return dict_value(dict, marks);
}

/// Bytes of text in a value, and some for each value inside it.
std::uint64_t total_bytes(const std::vector<AddedVariable>& added) {
  std::uint64_t bytes = 0;
  for (const AddedVariable& variable : added)
    bytes += 16 + variable.name.size() + (variable.text ? variable.text->size() : 0);
  return bytes;
}
std::uint64_t total_bytes(const formats::Json& json) {
  std::uint64_t bytes = 16 + json.key().size() + json.text().size();
  if (json.is_array() || json.is_object())
    for (const formats::Json& inside : json) bytes += total_bytes(inside);
  return bytes;
}

void add_span(std::vector<Span>& spans, std::size_t begin, std::size_t end) {
  if (!spans.empty() && spans.back().end == begin)
    spans.back().end = end;
  else
    spans.push_back({begin, end});
}

Status failure_of(const Run& run, const Program& program, std::size_t at) {
  if (run.code() == Code::cancelled) return Status(run.code(), run.message());
  if (run.is_raised()) return Status(run.code(), run.message(), kRaisedByTemplate);
  const Place place = find_place(program.source, at);
  return Status(run.code(), place_message(place, run.message()), static_cast<std::int64_t>(place.line));
}

bool is_date(const Date& date) {
  return date.year >= 1 && date.year <= 9999 && date.month >= 1 && date.month <= 12 && date.day >= 1 &&
         date.day <= 31 && date.hour >= 0 && date.hour < 24 && date.minute >= 0 && date.minute < 60 &&
         date.second >= 0 && date.second <= 60 && date.microsecond >= 0 && date.microsecond < 1000000 &&
         date.utc_offset > -86400 && date.utc_offset < 86400;
}

}  // namespace

std::vector<std::string> RenderOptions::default_template_variables() {
  return {"bos_token", "eos_token",  "unk_token", "sep_token",   "pad_token",
          "cls_token", "mask_token", "eot_token", "image_token", "additional_special_tokens"};
}

Template::Template(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::compile(std::string_view source) {
  if (source.size() > kMaxSource)
    return error(Code::format, "chat template: it has {} bytes, the most are {}", source.size(), kMaxSource);
  if (const std::size_t bad = text::find_invalid_utf8(source); bad != source.size())
    return error_at(Code::format, static_cast<std::int64_t>(bad), "chat template: byte {} is not UTF-8", bad);
  auto program = std::make_unique<Program>();
  program->source = normalise_newlines(source, true);
  QINFER_ASSIGN(std::vector<Token> tokens, split_into_tokens(program->source));
  QINFER_TRY(Parser(*program, std::move(tokens)).parse());
  return Template(std::move(program));
}

Result<Rendered> Template::render(const formats::Json& variables, const RenderOptions& options) const {
  if (!variables.is_object()) return error(Code::invalid_argument, "chat template: the variables are no JSON object");
  if (options.now != nullptr && !is_date(*options.now))
    return error(Code::invalid_argument, "chat template: the date that strftime_now() would tell is none");
  const std::uint64_t bytes = program_->source.size() + total_bytes(options.added) + total_bytes(variables);
  Run run(resolve(options.limits, bytes), options.now, options.cancel);
  Machine machine(run, *program_);
  const auto marks_of = [&](std::string_view name) {
    const auto& ours = options.template_variables;
    return std::find(ours.begin(), ours.end(), name) != ours.end() ? Marks{0} : kContent;
  };
  for (const AddedVariable& variable : options.added) {
    const Marks marks = marks_of(variable.name);
    machine.define(variable.name,
                   variable.text ? run.text_in_place(*variable.text, marks) : boolean_value(true, marks));
  }
  for (const formats::Json& variable : variables)
    machine.define(variable.key(), read_json(run, variable, marks_of(variable.key())));
  machine.execute();
  if (run.failed()) return failure_of(run, *program_, machine.at());
  Rendered rendered;
  rendered.text = machine.output().bytes();
  rendered.steps = run.steps();
  machine.output().each_run([&](std::size_t begin, std::size_t end, Marks marks) {
    if ((marks & kContent) != 0) add_span(rendered.content, begin, end);
    if ((marks & kGenerated) != 0) add_span(rendered.generated, begin, end);
  });
  return rendered;
}

bool Template::marks_generation() const { return program_->marks_generation; }

bool Template::mentions(std::string_view variable) const {
  for (std::uint32_t i = 0; i < program_->names.size(); ++i)
    if (program_->is_read[i] && program_->name(i) == variable) return true;
  return false;
}

}  // namespace qinfer::jinja
