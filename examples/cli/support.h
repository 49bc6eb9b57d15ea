// support.h: what every command needs and none is about: failures and how they are reported, output that notices a
// closed pipe, the progress bar, numbers for people, JSON strings and lists of token ids.
#pragma once

#include <qinfer/qinfer.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// The command cannot go on: exit status 1.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The command line makes no sense: exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// printf into a string; std::format is not in the standard library of the oldest compiler supported.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// A variable of the environment; empty if it is not set.
std::string environment(const char* name);

/// Writes "qinfer: TEXT" to stderr as one line, whatever characters the text contains.
void report(std::string_view text);

/// Results go to stdout. Throws Failure when they cannot be written, e.g. because the disk is full.
void print(std::string_view text);
/// A label, padded so that the values of a table line up, and a value.
void print_row(std::string_view label, std::string_view value);
/// Hands everything printed to the operating system. Called after each piece of streamed text and at the end.
void flush_output();

/// A bar on stderr while something takes long; silent unless stderr is a terminal. Clears its line when destroyed.
class ProgressBar {
 public:
  explicit ProgressBar(const char* activity);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// `what`: all that there is to do, for people.
  void update(std::uint64_t done, std::uint64_t total, const std::string& what);

 private:
  const char* activity_;
  bool terminal_;
  bool drawn_ = false;
};

/// Loads with a progress bar.
qi::Model load_model(qi::Runtime& runtime, const std::string& path,
                     const qinfer_load_options& options = qi::options<qinfer_load_options>());

/// Throws Failure, which names the option that would help, if the model has no chat template.
void need_template(const qi::Model& model);

/// The bytes of a file, or of standard input for "-".
std::string read_file(const std::string& path);

/// The model's own name, or its path if it has none.
std::string model_name(const qinfer_model_info& info, const std::string& path);

std::string human_bytes(std::uint64_t bytes);    ///< "1.11 GiB"
std::string human_count(std::uint64_t count);    ///< "596.0 M"
std::string with_commas(std::uint64_t number);   ///< "1,192,099,840"
std::string json_string(std::string_view text);  ///< quoted and escaped; also shows odd tokens to people

/// "1,2,3", also separated by spaces. Throws UsageError on anything but ids from 0.
std::vector<qinfer_token> parse_ids(std::string_view text);
/// The inverse: "1,2,3".
std::string join_ids(const std::vector<qinfer_token>& ids);

/// Whether a kernel set needs a CPU feature, which tells what it computes with; an empty name: the default set.
bool kernels_need(std::string_view kernel_set, std::string_view feature);

}  // namespace cli
