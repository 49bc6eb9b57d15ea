// command_line.h: commands and their options, as the files of the commands declare them. CLI11 parses them, and is
// compiled in command_line.cpp alone: its templates took 14 seconds in each file that had them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cli {

// What is wrong with a value, in words that say what would be right; empty if nothing is.
std::string check_whole_number(const std::string& text, std::uint64_t lowest, std::uint64_t highest);
std::string check_real_number(const std::string& text, double lowest, double highest);
std::string check_one_of(const std::string& text, const std::vector<std::string>& texts);
/// "; did you mean NAME?", of the name that was probably meant; empty if none is near.
std::string suggestion(std::string_view given, const std::vector<std::string>& names);

/// One option of a command; what is said of it can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  /// What the help shows in place of the value.
  Option type_name(const char* name) const;
  Option excludes(Option other) const;
  Option excludes(const char* other) const;
  /// Takes one value each time, where it would take all words that follow.
  Option one_value() const;

  // Values, each refused in one line that says what would be right.

  /// Digits only and in [lowest, highest]: CLI11 alone reads "-1" as 18446744073709551615 and "010" as 8.
  Option whole_number(std::uint64_t lowest, std::uint64_t highest) const;
  /// The same of bytes, which may have a unit: 200MiB, 1.5GB.
  Option bytes(std::uint64_t lowest, std::uint64_t highest) const;
  /// A finite number in [lowest, highest].
  Option real_number(double lowest, double highest) const;
  /// The help shows them.
  Option one_of(std::initializer_list<const char*> texts) const;
  /// Replaces the text that was given.
  Option replaced_by(std::function<std::string(const std::string&)> function) const;

  /// How often it was given; after parsing.
  std::size_t count() const;

 private:
  CLI::Option* option_;
};

/// The options of one command. Values are those of the caller, who keeps them until the command has run.
class Options {
 public:
  Options(CLI::App* command, std::function<int()>* chosen) : command_(command), chosen_(chosen) {}

  Option add(const char* name, std::string& value, const char* help);
  Option add(const char* name, std::vector<std::string>& value, const char* help);
  Option add(const char* name, std::vector<std::uint64_t>& value, const char* help);
  Option add(const char* name, std::int32_t& value, const char* help);
  Option add(const char* name, std::uint32_t& value, const char* help);
  Option add(const char* name, std::uint64_t& value, const char* help);
  Option add(const char* name, float& value, const char* help);
  Option flag(const char* name, bool& value, const char* help);

  /// Whether the option of this name was; after parsing.
  bool was_given(const char* name) const;
  /// What the help ends with.
  void set_footer(const std::string& text);
  /// What to do when this command was given; returns the exit status.
  void run(std::function<int()> function);
  /// The same for a command all of whose words are another program's, from the first one on that is no option of its
  /// own: the function gets them.
  void run_with_rest(const char* footer, std::function<int(const std::vector<std::string>& words)> function);

 private:
  CLI::App* command_;
  std::function<int()>* chosen_;
};

/// All commands of the program. One of them is to be given; it runs after parsing, so that its errors are no errors of
/// usage.
class Commands {
 public:
  Commands(const char* name, const char* description);
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;
  ~Commands();

  Options add(const char* name, const char* description);
  void set_version(const std::string& version);
  void set_footer(const char* text);

  /// Parses, and runs the command that was given. Help and version go to stdout. Throws UsageError, which names what
  /// was probably meant and the help of the command.
  int run(int argc, char** argv);

 private:
  void parse(std::vector<std::string> arguments);
  /// Throws UsageError for an option that the command does not have.
  void refuse_unknown() const;

  std::unique_ptr<CLI::App> app_;
  std::function<int()> chosen_;  ///< what to do, as the command that was given says
};

}  // namespace cli
