// Two users, each on a thread of their own: their texts come at the same time, and are those that each gets alone.
#include <iostream>
#include <qinfer/qinfer.hpp>
#include <string>
#include <thread>

namespace {

std::string text_of(const qi::Model& model, qi::KvCache& cache, const char* prompt, std::uint64_t seed) {
  auto options = qi::options<qinfer_session_options>();
  options.max_tokens = 64;
  qi::Session session(cache, options);
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = 0.8F;
  sampler.seed = seed;
  session.set_sampler(sampler);
  session.append(model.tokenize(prompt));
  qi::GenerateOptions request;
  request.max_tokens = 24;
  return session.generate_text(request);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const qi::Model model = qi::Model::load(argv[1]);
    auto room = qi::options<qinfer_kv_cache_options>();
    room.budget_blocks = 4;
    qi::KvCache cache(model, room);
    const std::string first = text_of(model, cache, "Once upon a time", 1);
    const std::string second = text_of(model, cache, "One sunny day", 2);
    std::string of_thread;
    std::thread other([&] { of_thread = text_of(model, cache, "One sunny day", 2); });
    const std::string of_main = text_of(model, cache, "Once upon a time", 1);
    other.join();
    std::cout << (first != second && !first.empty() ? "two texts" : "one text") << '\n'
              << (of_main == first && of_thread == second ? "the same as alone" : "others than alone") << '\n';
  } catch (const qi::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
// two texts
// the same as alone
