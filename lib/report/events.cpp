#include "report/events.h"

#include <nlohmann/json.hpp>

namespace trainer::report {
namespace {

using Json = nlohmann::ordered_json;

// What is not UTF-8 in a path becomes U+FFFD.
void write(const Json& line, std::ostream& out) {
  out << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json place_of(const Diagnostic& diagnostic) {
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

void print_validated_json(const std::string& config, const Error* error, std::ostream& out) {
  Json errors = Json::array();
  if (const auto* located = dynamic_cast<const ConfigError*>(error)) {
    for (const Diagnostic& each : located->diagnostics()) errors.push_back(place_of(each));
  } else if (error != nullptr) {
    errors.push_back({{"message", error->what()}});
  }
  write({{"event", "validated"}, {"config", config}, {"ok", error == nullptr}, {"errors", errors}},
        out);
}

void print_exported_json(const inference::Trained& trained, const std::string& format,
                         const std::string& output, std::ostream& out) {
  write({{"event", "exported"},
         {"output", output},
         {"format", format},
         {"run", trained.path},
         {"step", trained.step}},
        out);
}

}  // namespace trainer::report
