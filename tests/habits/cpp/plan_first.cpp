// A program that asks what a model takes before it loads it, is refused where that is too much, and takes what was
// said.
#include <iostream>
#include <qinfer/qinfer.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    auto runtime_options = qi::options<qinfer_runtime_options>();
    auto load = qi::options<qinfer_load_options>();
    auto room = qi::options<qinfer_kv_cache_options>();
    room.budget_blocks = 8;
    auto limits = qi::options<qinfer_session_options>();
    limits.max_tokens = 128;
    const qinfer_memory plan = qi::plan(argv[1], &runtime_options, &load, &room, &limits);
    const std::uint64_t needed = plan.total + plan.per_session;
    qi::Runtime runtime(runtime_options);
    load.memory_budget_bytes = needed / 2;
    try {
      const qi::Model refused = qi::Model::load(runtime, argv[1], load);
      std::cout << "loaded with half of what it needs\n";
    } catch (const qi::Error& error) {
      const bool says = std::string(error.what()).find("memory_budget_bytes is") != std::string::npos;
      std::cout << error.status_name() << (says && error.detail() > 0 ? ", with the number\n" : "\n");
    }
    load.memory_budget_bytes = needed;
    const qi::Model model = qi::Model::load(runtime, argv[1], load);
    qi::KvCache cache(model, room);
    qi::Session session(cache, limits);
    const qinfer_memory taken = model.memory();
    std::cout << (taken.weights_private == plan.weights_private && taken.scratch == plan.scratch ? "as planned\n"
                                                                                                 : "not as planned\n");
    try {
      qi::Session more(cache, limits);
      std::cout << "a second session beyond the budget\n";
    } catch (const qi::Error& error) {
      std::cout << error.status_name() << '\n';
    }
  } catch (const qi::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
// QINFER_E_NO_MEMORY, with the number
// as planned
// QINFER_E_NO_MEMORY
