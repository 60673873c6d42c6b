#include "results/run_files/result_files.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"

namespace trainer::results {

using OrderedJson = nlohmann::ordered_json;

std::optional<OrderedJson> read_result(const Path& file, const std::string& advice) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  const std::string text = read_text_file(file);
  if (is_shallow_json(text)) {
    OrderedJson json = OrderedJson::parse(text, nullptr, false);
    if (json.is_object()) return json;
  }
  throw DataError(file, concat("is damaged: it does not hold a JSON object; ", advice));
}

void print_result_json(const char* event, const std::string& run, const OrderedJson& content,
                       const std::string& stored, std::ostream& out) {
  OrderedJson json{{"event", event}, {"run", run}};
  json.update(content);
  json["stored"] = stored.empty() ? OrderedJson() : OrderedJson(stored);
  write_event(out, json);
}

}  // namespace trainer::results
