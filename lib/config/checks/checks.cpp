#include "config/checks/checks.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace trainer::config {
namespace {

// Returns the flag of the command line that gives a value below `path`, or a key beside it that the
// message names.
std::optional<SourceLoc> flag_behind(const Decoded& decoded, const std::string& path,
                                     const std::string& message) {
  const std::string above = path.substr(0, path.rfind('.') + 1);
  for (const auto& [key, origin] : decoded.origins) {
    if (origin.kind != Origin::Kind::kSet) continue;
    if (key.starts_with(path) && key.find_first_of(".[", path.size()) == path.size()) {
      return origin.loc;
    }
    const bool beside = !above.empty() && key.starts_with(above) &&
                        key.find_first_of(".[", above.size()) == std::string::npos;
    if (beside && message.find(key.substr(above.size())) != std::string::npos) return origin.loc;
  }
  return std::nullopt;
}

}  // namespace

void Checks::report(const std::string& path, const std::string& message) {
  if (full()) return;
  const auto broken = decoded_.broken.lower_bound(path);
  if (broken != decoded_.broken.end() && broken->starts_with(path)) return;
  SourceLoc loc;
  for (std::string above = path; !above.empty();
       above.resize(std::min(above.find_last_of(".["), above.size() - 1))) {
    const auto origin = decoded_.origins.find(above);
    const auto place = decoded_.places.find(above);
    if (above == path && origin != decoded_.origins.end()) {
      loc = origin->second.loc;
    } else if (place != decoded_.places.end()) {
      loc = place->second;
    }
    if (loc.known()) break;
    if (above.find_last_of(".[") == std::string::npos) break;
  }
  const auto origin = decoded_.origins.find(path);
  if (origin == decoded_.origins.end() || origin->second.kind != Origin::Kind::kSet) {
    loc = flag_behind(decoded_, path, message).value_or(loc);
  }
  diagnostics_.push_back({loc, path + ": " + message});
}

void check(const Decoded& decoded, std::vector<Diagnostic>& diagnostics) {
  if (diagnostics.size() >= kMaxDiagnostics) return;
  Checks checks(decoded, diagnostics);
  if (decoded.config.name.find('/') != std::string::npos) {
    checks.report("name",
                  "must not contain '/': it names a folder below runs/; use run.dir for a path");
  }
  check_model(checks);
  check_data(checks);
  check_training(checks);
}

}  // namespace trainer::config
