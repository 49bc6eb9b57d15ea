// command_line.cpp: see command_line.h.
#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <string_view>
#include <utility>

#include "support.h"

namespace cli {

std::string check_whole_number(const std::string& text, std::uint64_t lowest, std::uint64_t highest) {
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool decimal = text.size() == 1 || (!text.empty() && text.front() != '0');
  if (error == std::errc() && stop == text.data() + text.size() && decimal && value >= lowest && value <= highest)
    return {};
  return json_string(text) + " is not a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
}

std::string check_real_number(const std::string& text, double lowest, double highest) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && stop == text.data() + text.size() && std::isfinite(value) && value >= lowest &&
      value <= highest)
    return {};
  return format("%s is not a number from %g to %g", json_string(text.substr(0, 100)).c_str(), lowest, highest);
}

namespace {

/// "a,b,c"
std::string join_texts(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return all;
}

}  // namespace

std::string check_one_of(const std::string& text, const std::vector<std::string>& texts) {
  if (std::find(texts.begin(), texts.end(), text) != texts.end()) return {};
  return json_string(text) + " is not one of " + join_texts(texts);
}

namespace {

/// How many letters to add, take away, change or exchange with the next, to make one text of another (Damerau 1964,
/// without letters that are changed twice).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      d[i][j] = std::max(i, j);
      if (i == 0 || j == 0) continue;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

namespace {

/// Names of other programs, and what they are here.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"run", "chat"},
    {"complete", "generate"},
    {"completion", "generate"},
    {"show", "info"},
    {"ls", "list"},
    {"download", "pull"},
    {"quantize", "pack"},
    {"convert", "pack"},
    {"server", "serve"},
    {"--temperature", "--temp"},
    {"--ctx-size", "--context"},
    {"--max-model-len", "--context"},
    {"--system-prompt", "--system"},
    {"--predict", "-n"},
    {"--n-predict", "-n"},
    {"--max-tokens", "-n"},
    {"--max-new-tokens", "-n"},
    {"--reasoning-budget", "--max-think"},
    {"--chat-template-file", "--template"},
    {"--chat-template-kwargs", "--variables"},
    {"--json-schema", "--schema"},
    {"--json-schema-file", "--schema"},
    {"--grammar", "--lark"},
    {"--grammar-file", "--lark"},
    {"--cache-type-k", "--kv"},
    {"--cache-type-v", "--kv"},
    {"--kv-cache-dtype", "--kv"},
    {"--context-shift", "--overflow"},
};

}  // namespace

std::string suggestion(std::string_view given, const std::vector<std::string>& names) {
  for (const auto& [other, here] : kOtherNames)
    if (given == other && std::find(names.begin(), names.end(), here) != names.end())
      return "; did you mean " + std::string(here) + "?";
  const auto far = [&](const std::string& name) { return distance(given.substr(0, 100), name); };
  const auto nearest = std::min_element(names.begin(), names.end(),
                                        [&](const std::string& a, const std::string& b) { return far(a) < far(b); });
  if (nearest == names.end() || far(*nearest) > 1 + nearest->size() / 4) return {};
  return "; did you mean " + *nearest + "?";
}

namespace {

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// A number of bytes with a unit, such as 200MiB or 1.5GB, as digits. What is none stays as it is.
std::string bytes_of(const std::string& text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"B", 1},        {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},   {"TB", 1e12},  {"KB", 1e3},   {"KiB", 0x1p10},
      {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}};
  const char* end = text.data() + text.size();
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  for (const auto& [unit, size] : kUnits)
    if (error == std::errc() && std::string_view(stop, end) == unit && number >= 0 && number * size < 0x1p63)
      return std::to_string(static_cast<std::uint64_t>(number * size));
  return text;
}

}  // namespace

Option Option::required() const {
  option_->required();
  return *this;
}

Option Option::type_name(const char* name) const {
  option_->type_name(name);
  return *this;
}

Option Option::excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::excludes(const char* other) const {
  option_->excludes(other);
  return *this;
}

Option Option::one_value() const {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::whole_number(std::uint64_t lowest, std::uint64_t highest) const {
  option_->check(CLI::Validator(
      [lowest, highest](const std::string& text) { return check_whole_number(text, lowest, highest); }, ""));
  return *this;
}

Option Option::bytes(std::uint64_t lowest, std::uint64_t highest) const {
  return replaced_by(bytes_of).whole_number(lowest, highest);
}

Option Option::real_number(double lowest, double highest) const {
  option_->check(CLI::Validator(
      [lowest, highest](const std::string& text) { return check_real_number(text, lowest, highest); }, ""));
  return *this;
}

Option Option::one_of(std::initializer_list<const char*> texts) const {
  const std::vector<std::string> all(texts.begin(), texts.end());
  option_->check(
      CLI::Validator([all](const std::string& text) { return check_one_of(text, all); }, '{' + join_texts(all) + '}'));
  return *this;
}

Option Option::replaced_by(std::function<std::string(const std::string&)> function) const {
  option_->transform(CLI::Validator(
      [function = std::move(function)](std::string& text) { return text = function(text), std::string(); }, ""));
  return *this;
}

std::size_t Option::count() const { return option_->count(); }

Option Options::add(const char* name, std::string& value, const char* help) {
  return Option(command_->add_option(name, value, help));
}
Option Options::add(const char* name, std::vector<std::string>& value, const char* help) {
  return Option(command_->add_option(name, value, help));
}
Option Options::add(const char* name, std::vector<std::uint64_t>& value, const char* help) {
  return Option(command_->add_option(name, value, help));
}
Option Options::add(const char* name, std::int32_t& value, const char* help) {
  return Option(command_->add_option(name, value, help));
}
Option Options::add(const char* name, std::uint32_t& value, const char* help) {
  return Option(command_->add_option(name, value, help));
}
Option Options::add(const char* name, std::uint64_t& value, const char* help) {
  return Option(command_->add_option(name, value, help));
}
Option Options::add(const char* name, float& value, const char* help) {
  return Option(command_->add_option(name, value, help));
}
Option Options::flag(const char* name, bool& value, const char* help) {
  return Option(command_->add_flag(name, value, help));
}

bool Options::was_given(const char* name) const { return command_->count(name) != 0; }

void Options::set_footer(const std::string& text) { command_->footer(text); }

void Options::run(std::function<int()> function) {
  command_->callback([chosen = chosen_, function = std::move(function)] { *chosen = function; });
}

void Options::run_with_rest(const char* footer, std::function<int(const std::vector<std::string>&)> function) {
  command_->prefix_command();
  command_->footer(footer);
  command_->callback([chosen = chosen_, command = command_, function = std::move(function)] {
    *chosen = [words = command->remaining(), function] { return function(words); };
  });
}

Commands::Commands(const char* name, const char* description) : app_(std::make_unique<CLI::App>(description, name)) {
  app_->require_subcommand(1);
}

Commands::~Commands() = default;

Options Commands::add(const char* name, const char* description) {
  return Options(app_->add_subcommand(name, description), &chosen_);
}

void Commands::set_version(const std::string& version) { app_->set_version_flag("--version", version); }
void Commands::set_footer(const char* text) { app_->footer(text); }

void Commands::refuse_unknown() const {
  const std::vector<CLI::App*> given = app_->get_subcommands();
  for (const std::string& text : app_->remaining(true)) {
    const std::string name = text.substr(0, text.find('='));
    if (name.starts_with("--") && name.size() > 2 && !given.empty())
      throw UsageError(json_string(name) + " is no option of it" + suggestion(name, names_of_options(*given[0])));
  }
}

void Commands::parse(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app_->parse(std::move(arguments));
  } catch (const CLI::ExtrasError& error) {
    refuse_unknown();
    throw UsageError(error.what());
  } catch (const CLI::RequiredError& error) {
    refuse_unknown();  // such as a typo of --help
    throw UsageError(error.what());
  }
}

int Commands::run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  // "qinfer" and "qinfer help [COMMAND]" are "qinfer [COMMAND] --help".
  if (arguments.empty() || arguments[0] == "help")
    arguments = {arguments.size() > 1 ? arguments[1] : "--help", "--help"};
  const std::string name = arguments[0];
  const std::vector<std::string> names = names_of_commands(*app_);
  const bool is_known = std::find(names.begin(), names.end(), name) != names.end();
  const std::string hint = " (see qinfer " + (is_known ? name + " " : "") + "--help)";
  if (!is_known && !name.starts_with('-'))
    throw UsageError(json_string(name) + " is no command" + suggestion(name, names) + hint);
  try {
    parse(std::move(arguments));
    return chosen_();
  } catch (const CLI::Success& asked) {  // --help or --version
    app_->exit(asked, std::cout, std::cerr);
    std::cout.flush();
    return std::cout ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what() + hint);
  } catch (const UsageError& error) {
    throw UsageError(error.what() + hint);
  }
}

}  // namespace cli
