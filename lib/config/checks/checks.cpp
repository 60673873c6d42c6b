#include "config/checks/checks.h"

#include <algorithm>

#include "base/error.h"

namespace trainer::config {

void Checks::report(const std::string& path, const std::string& message) {
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
  diagnostics_.push_back({loc, path + ": " + message});
}

void check(const Decoded& decoded, std::vector<Diagnostic>& diagnostics) {
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
