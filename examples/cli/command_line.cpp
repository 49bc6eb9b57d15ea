// command_line.cpp: see command_line.h.
#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <utility>

#include "support.h"

namespace cli {
namespace {

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

/// "a,b,c"
std::string join_texts(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return all;
}

std::string check_one_of(const std::string& text, const std::vector<std::string>& texts) {
  if (std::find(texts.begin(), texts.end(), text) != texts.end()) return {};
  return json_string(text) + " is not one of " + join_texts(texts);
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

void Options::run(std::function<int()> function) {
  command_->callback([chosen = chosen_, function = std::move(function)] { *chosen = function; });
}

Commands::Commands(const char* name, const char* description) : app_(std::make_unique<CLI::App>(description, name)) {
  app_->require_subcommand(1);
}

Commands::~Commands() = default;

Options Commands::add(const char* name, const char* description) {
  return Options(app_->add_subcommand(name, description), &chosen_);
}

void Commands::set_version(std::string version) { app_->set_version_flag("--version", std::move(version)); }
void Commands::set_footer(const char* text) { app_->footer(text); }

int Commands::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help or --version
    app_->exit(asked, std::cout, std::cerr);
    std::cout.flush();
    return std::cout ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  return chosen_();
}

}  // namespace cli
