#include "commands/validate/validation_json.h"

#include <nlohmann/json.hpp>

#include "base/formats/json.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;

Json make_place(const Diagnostic& diagnostic) {
  Json place = Json::object();
  if (!diagnostic.loc.file.empty()) place["file"] = diagnostic.loc.file;
  if (diagnostic.loc.line > 0) {
    place["line"] = diagnostic.loc.line;
    place["column"] = diagnostic.loc.column;
  }
  place["message"] = diagnostic.message;
  return place;
}

}  // namespace

void print_validated_json(const std::string& config, const std::vector<Unchecked>& unchecked,
                          std::ostream& out) {
  Json event{{"event", "validated"}, {"config", config}, {"ok", true}};
  event["errors"] = Json::array();
  event["not_checked"] = Json::array();
  for (const Unchecked& one : unchecked) {
    event["not_checked"].push_back({{"what", one.what}, {"command", one.command}});
  }
  write_event(out, event);
}

void print_validated_json(const std::string& config, const Error& error, std::ostream& out) {
  Json errors = Json::array();
  if (const auto* located = dynamic_cast<const ConfigError*>(&error)) {
    for (const Diagnostic& each : located->diagnostics()) errors.push_back(make_place(each));
  } else {
    errors.push_back({{"message", error.what()}});
  }
  write_event(out, {{"event", "validated"}, {"config", config}, {"ok", false}, {"errors", errors}});
}

}  // namespace trainer::commands
