// locale_host: a host that has set its locale. What the library reads and says must be the same as without one: numbers
// of files are read with a point, messages are English.
//
//   locale_host MODEL     with LC_ALL naming a locale whose decimal point is none
#include <qinfer/qinfer.hpp>

#include <clocale>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Seen {
  std::vector<float> logits;
  std::vector<std::string> texts;
  bool operator==(const Seen& other) const = default;
};

/// Logits of a few tokens, numbers of the configuration as text, and the messages of some failures.
Seen look(const char* path) {
  Seen seen;
  const qi::Model model = qi::Model::load(path);
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(model.tokenize("Once upon a time"));
  qinfer_session* handle = session.native();
  qinfer_error error{};
  if (qinfer_eval(&handle, 1, nullptr, &error) != QINFER_OK) seen.texts.emplace_back(error.message);
  const float* row = qinfer_session_logits(handle, 0);
  if (row != nullptr) seen.logits.assign(row, row + model.info().n_vocab);
  for (std::size_t i = 0; i < qinfer_model_meta_count(model.native()); ++i) {
    const char* key = qinfer_model_meta_key(model.native(), i);
    seen.texts.push_back(std::string(key) + " = " + qinfer_model_meta_value(model.native(), key));
  }
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.top_p = 1.5f;
  if (qinfer_session_set_sampler(handle, &sampler, &error) != QINFER_OK) seen.texts.emplace_back(error.message);
  for (const char* missing : {"/no/such/folder", "/etc/passwd/x", "/proc/1/mem"}) {
    qinfer_model* none = nullptr;
    if (qinfer_model_load(nullptr, missing, nullptr, &none, &error) != QINFER_OK)
      seen.texts.emplace_back(error.message);
  }
  return seen;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: locale_host MODEL\n", stderr), 2;
  const Seen before = look(argv[1]);
  if (std::setlocale(LC_ALL, "") == nullptr || std::strcmp(std::localeconv()->decimal_point, ".") == 0)
    return std::puts("the locale of LC_ALL is not there, or has a point"), 77;
  const std::string point = std::localeconv()->decimal_point;
  const Seen after = look(argv[1]);
  std::setlocale(LC_ALL, "C");
  if (before.logits.empty() || before.texts.size() < 10) return std::puts("FAILED: nothing was seen"), 1;
  if (before.logits != after.logits) return std::puts("FAILED: other logits"), 1;
  for (std::size_t i = 0; i < before.texts.size(); ++i)
    if (i >= after.texts.size() || before.texts[i] != after.texts[i])
      return std::printf("FAILED: \"%s\" became \"%s\"\n", before.texts[i].c_str(),
                         i < after.texts.size() ? after.texts[i].c_str() : ""),
             1;
  std::printf("the same with \"%s\" for a decimal point: %zu texts\n", point.c_str(), before.texts.size());
  return 0;
}
