// plan_map.cpp: `qinfer plan --map`: every buffer of a plan as a table.
#include <nlohmann/json.hpp>

#include "plan.h"
#include "support.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

std::string shape_text(const Json& shape) {
  std::string text;
  for (const Json& size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size.get<std::uint64_t>());
  return text;
}

}  // namespace

void print_map(const std::string& text) {
  const Json map = Json::parse(text);
  std::uint64_t model = 0, session = 0;
  for (const Json& region : map.at("regions")) {
    const auto bytes = region.at("bytes").get<std::uint64_t>();
    (region.at("belongs_to") == "session" ? session : model) += bytes;
    print(format("%s (%s): %s B\n", region.at("name").get<std::string>().c_str(),
                 region.at("belongs_to").get<std::string>().c_str(), with_commas(bytes).c_str()));
    for (const Json& buffer : region.at("buffers")) {
      std::string lifetime;
      if (buffer.contains("lifetime"))
        lifetime = buffer["lifetime"][0].get<std::string>() + ".." + buffer["lifetime"][1].get<std::string>();
      print(format("  %16llu %16llu %16llu  %-44s %-5s %-18s %s\n",
                   static_cast<unsigned long long>(buffer.at("offset").get<std::uint64_t>()),
                   static_cast<unsigned long long>(buffer.at("end").get<std::uint64_t>()),
                   static_cast<unsigned long long>(buffer.at("bytes").get<std::uint64_t>()),
                   buffer.at("name").get<std::string>().c_str(), buffer.at("dtype").get<std::string>().c_str(),
                   lifetime.c_str(), shape_text(buffer.at("shape")).c_str()));
    }
  }
  print_row("model and cache", amount(model));
  print_row("each session", amount(session));
}

}  // namespace cli
