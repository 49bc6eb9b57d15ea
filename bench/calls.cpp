// calls: builds of the library against each other, through the C ABI alone, on what hosts do: tokenise, load, plan,
// make, fork, save and load sessions, evaluate prompts, decode.
//
// The speed of a shared machine changes by a factor of two within minutes; so in a turn each item runs once on each
// library, one directly after the other and in alternating order, on a model that was loaded for that turn, and what is
// reported is the median of the ratios within turns. An interval of at least 95 % says how sure that median is: of a
// build against itself it holds 1 for 19 items of 20.
//
//   calls --lib A/libqinfer.so --lib B/libqinfer.so --model DIR [--tokenizer DIR] [--text FILE] [--turns N]
//         [--threads N | --cpus 0,1] [--only REGEX] [--scratch DIR] [--json FILE]
//         [--cpu-time]
#include <fmt/format.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "calls_items.h"
#include "statistics.h"

namespace qinfer::bench {
namespace {

using Json = nlohmann::ordered_json;

struct CallsArgs {
  std::vector<std::string> libraries;
  std::string model, tokenizer, text, chat_template, only, scratch, json;
  std::uint32_t turns = 20, threads = 0;
  bool cpu_time = false;
  std::vector<std::uint32_t> cpus;
};

/// What was measured of an item: for each library the seconds of every turn.
struct Measured {
  Item item;
  std::vector<std::vector<double>> seconds;
};

// ---- The subject ----

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  return text;
}

/// The texts of a file: one, or where its name ends in .jsonl the "text" of each line. Without a file held-out stories,
/// repeated to more than the caches of a core hold.
std::vector<std::string> read_texts(const std::string& path) {
  if (path.empty()) {
    const std::string stories = read_file(QINFER_CALLS_TEXT);
    std::string text;
    while (text.size() < std::size_t{256} << 10) text += stories;
    return {text};
  }
  const std::string whole = read_file(path);
  if (!path.ends_with(".jsonl")) return {whole};
  std::vector<std::string> texts;
  std::istringstream lines(whole);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) texts.push_back(Json::parse(line).at("text").get<std::string>());
  return texts;
}

/// A folder that can be loaded without weights: `directory` itself, or where it has no config.json a folder below
/// `parent` with a copy of its tokenizer.json beside the smallest configuration that has room for all of its tokens.
std::string loadable_tokenizer(const std::string& directory, const std::filesystem::path& parent) {
  const std::filesystem::path from(directory);
  if (directory.empty() || std::filesystem::exists(from / "config.json")) return directory;
  const Json tokenizer = Json::parse(read_file(from / "tokenizer.json"));
  std::int64_t n_vocab = 0;
  const Json& vocab = tokenizer.at("model").at("vocab");
  if (vocab.is_array()) n_vocab = static_cast<std::int64_t>(vocab.size());
  if (vocab.is_object())
    for (const Json& id : vocab) n_vocab = std::max(n_vocab, id.get<std::int64_t>() + 1);
  for (const Json& added : tokenizer.value("added_tokens", Json::array()))
    n_vocab = std::max(n_vocab, added.at("id").get<std::int64_t>() + 1);
  const std::filesystem::path to = parent / "tokenizer";
  std::filesystem::create_directory(to);
  std::filesystem::copy_file(from / "tokenizer.json", to / "tokenizer.json");
  std::ofstream(to / "config.json") << Json{{"architectures", {"Qwen3ForCausalLM"}},
                                            {"model_type", "qwen3"},
                                            {"torch_dtype", "bfloat16"},
                                            {"hidden_act", "silu"},
                                            {"rms_norm_eps", 1e-6},
                                            {"rope_theta", 10000},
                                            {"tie_word_embeddings", true},
                                            {"attention_bias", false},
                                            {"hidden_size", 64},
                                            {"intermediate_size", 64},
                                            {"num_attention_heads", 2},
                                            {"num_key_value_heads", 2},
                                            {"head_dim", 32},
                                            {"num_hidden_layers", 1},
                                            {"max_position_embeddings", 512},
                                            {"vocab_size", n_vocab}};
  return to.string();
}

/// The CPU; by the members of qinfer_cpu_info that all builds have where they are.
struct Machine {
  std::string name, features;
  std::uint32_t n_cores = 0;
};

Machine look_at_machine(const Library& library) {
  auto cpu = blank<qinfer_cpu_info>();
  qinfer_error error{};
  library.expect(library.call.get_cpu_info(&cpu, &error), error);
  Machine machine{.name = "unknown", .features = std::string(4096, ' '), .n_cores = cpu.n_physical_cores};
  std::size_t n = 0;
  library.expect(library.call.cpu_features(machine.features.data(), machine.features.size(), &n, &error), error);
  machine.features.resize(n);
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) machine.name = line.substr(line.find(": ") + 2);
  return machine;
}

/// The CPUs that were asked for, or the first that this process may use. Keeps the process, and with it threads that a
/// library starts for other things than evaluating, on these.
std::vector<std::uint32_t> choose_cpus(const CallsArgs& args, const Machine& machine) {
  cpu_set_t usable, chosen;
  CPU_ZERO(&usable);
  CPU_ZERO(&chosen);
  sched_getaffinity(0, sizeof usable, &usable);
  std::vector<std::uint32_t> cpus = args.cpus;
  const std::size_t wanted = args.threads != 0 ? args.threads : machine.n_cores;
  for (std::uint32_t i = 0; i < CPU_SETSIZE && args.cpus.empty() && cpus.size() < wanted; ++i)
    if (CPU_ISSET(i, &usable)) cpus.push_back(i);
  if (args.threads != 0 && cpus.size() != args.threads)
    throw std::runtime_error(fmt::format("{} threads, but {} CPUs", args.threads, cpus.size()));
  for (const std::uint32_t i : cpus) {
    if (i >= CPU_SETSIZE || !CPU_ISSET(i, &usable))
      throw std::runtime_error(fmt::format("this process may not use CPU {}", i));
    CPU_SET(i, &chosen);
  }
  sched_setaffinity(0, sizeof chosen, &chosen);
  return cpus;
}

// ---- Turns ----

using Contestants = std::vector<std::unique_ptr<Contestant>>;

/// The libraries in the order of a turn: each comes first equally often,
/// and any two of them in this order as often as in the other.
std::vector<std::size_t> order_of(std::size_t turn, std::size_t n_libraries) {
  std::vector<std::size_t> order(n_libraries);
  for (std::size_t i = 0; i < n_libraries; ++i) order[i] = (i + turn) % n_libraries;
  if (n_libraries > 2 && turn / n_libraries % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

Contestants load_all(const std::vector<Library>& libraries, const Subject& subject, std::size_t turn) {
  Contestants all(libraries.size());
  for (const std::size_t i : order_of(turn, libraries.size()))
    all[i] = std::make_unique<Contestant>(libraries[i], subject);
  return all;
}

std::vector<Measured> choose_items(const Contestant& contestant, const std::string& only) {
  const std::regex wanted(only);
  std::vector<Measured> all;
  for (Item& item : list_items(contestant))
    if (std::regex_search(item.name, wanted)) all.push_back({std::move(item), {}});
  if (all.empty()) throw std::runtime_error("there is nothing to measure: no item matches, or the model is too small");
  return all;
}

/// The first turn does not count: it brings files into memory and the CPUs up to speed.
std::vector<Measured> run_turns(const std::vector<Library>& libraries, const Subject& subject, const CallsArgs& args) {
  std::vector<Measured> all;
  for (std::size_t turn = 0; turn <= args.turns; ++turn) {
    const Contestants contestants = load_all(libraries, subject, turn);
    if (turn == 0) {
      all = choose_items(*contestants[0], args.only);
      for (std::size_t i = 1; i < libraries.size() && contestants[0]->has_tokenizer(); ++i)
        if (contestants[i]->tokenise() != contestants[0]->tokenise())
          fmt::print(stderr, "calls: {} makes other tokens of the text than the first\n", libraries[i].path());
    }
    for (Measured& measured : all) {
      measured.seconds.resize(libraries.size());
      for (const std::size_t i : order_of(turn, libraries.size())) {
        const double seconds = measure(measured.item, *contestants[i]);
        if (turn > 0) measured.seconds[i].push_back(seconds);
      }
    }
  }
  return all;
}

// ---- Results ----

/// With four digits, or more before the point.
std::string show(double value, const char* unit) {
  const int decimals = value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

std::string show(const Item& item, double seconds) {
  if (item.unit != nullptr) return show(item.work / seconds, item.unit);
  if (seconds < 1e-3) return show(seconds * 1e6, "us");
  return seconds < 1 ? show(seconds * 1e3, "ms") : show(seconds, "s");
}

void print_line(const std::string& line) { fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1)); }

/// How many times as fast as the first library, in each turn.
std::vector<double> ratios_of(const Measured& measured, std::size_t library) {
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < measured.seconds[0].size(); ++turn)
    ratios.push_back(measured.seconds[0][turn] / measured.seconds[library][turn]);
  return ratios;
}

void print_heading(const std::vector<Library>& libraries, const Subject& subject, const CallsArgs& args,
                   const Machine& machine) {
  fmt::print("{}: {} threads on CPUs {}, {} turns, {} time\n", machine.name, subject.cpus.size(),
             fmt::join(subject.cpus, ","), args.turns, args.cpu_time ? "CPU" : "wall");
  if (!args.model.empty()) fmt::print("model      {}\n", args.model);
  if (!args.tokenizer.empty()) fmt::print("tokenizer  {}\n", args.tokenizer);
  fmt::print("text       {}, {:.0f} bytes\n", args.text.empty() ? "held-out stories" : args.text, subject.text_bytes());
  for (std::size_t i = 0; i < libraries.size(); ++i)
    fmt::print("library {}  {} ({})\n", i + 1, libraries[i].path(), libraries[i].call.build_info());
  fmt::print("\n");
  std::fflush(stdout);  // turns take minutes
}

void print_table(const std::vector<Measured>& all, std::size_t n_libraries) {
  std::string line = fmt::format("{:24}", "");
  for (std::size_t i = 0; i < n_libraries; ++i) line += fmt::format("{:>18}", fmt::format("library {}", i + 1));
  for (std::size_t i = 1; i < n_libraries; ++i) line += fmt::format("   {:24}", fmt::format("{} against 1", i + 1));
  print_line(line);
  for (const Measured& measured : all) {
    line = fmt::format("{:24}", measured.item.name);
    for (std::vector<double> seconds : measured.seconds)
      line += fmt::format("{:>18}", show(measured.item, quantile(seconds, 0.5)));
    for (std::size_t i = 1; i < n_libraries; ++i) {
      std::vector<double> ratios = ratios_of(measured, i);
      const Interval interval = median_interval(ratios);
      const char* const verdict = interval.low > 1 ? "+" : interval.high < 1 ? "-" : "";
      line += fmt::format("   {:24}", fmt::format("{:.3f} [{:.3f}, {:.3f}] {}", quantile(ratios, 0.5), interval.low,
                                                  interval.high, verdict));
    }
    print_line(line);
  }
  if (n_libraries < 2) return;
  std::vector<double> any = all[0].seconds[0];
  fmt::print(
      "\nHigher is faster; + and -: the interval is above or below 1. Intervals are those of the median by order\n"
      "statistics over turns, {:.1f} %.\n",
      100 * median_interval(any).coverage);
}

void write_json(const std::vector<Measured>& all, const std::vector<Library>& libraries, const Subject& subject,
                const CallsArgs& args, const Machine& machine) {
  Json out{{"cpu", machine.name},
           {"features", machine.features},
           {"cpus", subject.cpus},
           {"clock", args.cpu_time ? "cpu" : "wall"},
           {"turns", args.turns},
           {"model", args.model},
           {"text", args.text},
           {"tokenizer", args.tokenizer},
           {"text_bytes", subject.text_bytes()}};
  for (const Library& library : libraries)
    out["libraries"].push_back({{"path", library.path()}, {"build", library.call.build_info()}});
  for (const Measured& measured : all) {
    Json item{{"name", measured.item.name}};
    if (measured.item.unit != nullptr) item["unit"] = measured.item.unit, item["work"] = measured.item.work;
    for (std::size_t i = 0; i < libraries.size(); ++i) {
      std::vector<double> seconds = measured.seconds[i], ratios = ratios_of(measured, i);
      const Interval interval = median_interval(ratios);
      item["libraries"].push_back({{"median_seconds", quantile(seconds, 0.5)},
                                   {"ratio", quantile(ratios, 0.5)},
                                   {"low", interval.low},
                                   {"high", interval.high},
                                   {"coverage", interval.coverage},
                                   {"seconds", measured.seconds[i]}});
    }
    out["items"].push_back(item);
  }
  std::ofstream file(args.json);
  file << out.dump(1) << "\n";
  if (!file.flush()) throw std::runtime_error(args.json + " cannot be written");
}

void run(const CallsArgs& args) {
  const TemporaryFolder folder(std::filesystem::temp_directory_path());
  const TemporaryFolder scratch(args.scratch.empty() ? std::filesystem::temp_directory_path()
                                                     : std::filesystem::path(args.scratch));
  std::vector<Library> libraries;
  for (const std::string& path : args.libraries) libraries.emplace_back(path, folder.path());
  const Machine machine = look_at_machine(libraries[0]);
  const Subject subject{.model = args.model,
                        .tokenizer = loadable_tokenizer(args.tokenizer, folder.path()),
                        .texts = read_texts(args.text),
                        .chat_template = args.chat_template.empty() ? std::string() : read_file(args.chat_template),
                        .cpus = choose_cpus(args, machine),
                        .scratch = scratch.path(),
                        .clock = args.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC};
  print_heading(libraries, subject, args, machine);
  const std::vector<Measured> all = run_turns(libraries, subject, args);
  print_table(all, libraries.size());
  if (!args.json.empty()) write_json(all, libraries, subject, args, machine);
}

void add_options(CLI::App& app, CallsArgs& args) {
  app.add_option("--lib", args.libraries, "A libqinfer.so; the first is what the others are compared with")
      ->required()
      ->expected(1, 16)
      ->check(CLI::ExistingFile);
  app.add_option("--model", args.model, "What qinfer_model_load takes");
  app.add_option("--tokenizer", args.tokenizer, "Tokenise with the tokenizer.json of this folder instead")
      ->check(CLI::ExistingDirectory);
  app.add_option("--text", args.text, "What to tokenise: a text, or .jsonl with a \"text\" on each line")
      ->check(CLI::ExistingFile);
  app.add_option("--chat-template", args.chat_template, "Tokenise a conversation with this one, not the model's")
      ->check(CLI::ExistingFile);
  app.add_option("--turns", args.turns, "Turns that count")
      ->check(CLI::Range(kFewestForInterval, kMostForInterval))
      ->capture_default_str();
  app.add_option("--threads", args.threads, "Compute threads (default: one on each of --cpus, or physical cores)");
  app.add_option("--cpus", args.cpus, "CPUs to pin them to, e.g. 0,1")->delimiter(',');
  app.add_option("--only", args.only, "Items whose name has a match of this regular expression");
  app.add_option("--scratch", args.scratch, "Where sessions are saved (default: the system's folder)")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--cpu-time", args.cpu_time,
               "Time of all threads on a CPU, which others do not lengthen by running in between: for what one thread "
               "does, not for evaluations and files");
  app.add_option("--json", args.json, "Write all values to this file too");
}

}  // namespace
}  // namespace qinfer::bench

int main(int argc, char** argv) {
  CLI::App app("Measures builds of the library against each other in turns, through the C ABI.");
  qinfer::bench::CallsArgs args;
  qinfer::bench::add_options(app, args);
  CLI11_PARSE(app, argc, argv);
  if (args.model.empty() && args.tokenizer.empty()) {
    fmt::print(stderr, "calls: --model or --tokenizer is needed\n");
    return 2;
  }
  try {
    qinfer::bench::run(args);
  } catch (const std::exception& error) {
    fmt::print(stderr, "calls: {}\n", error.what());
    return 1;
  }
}
