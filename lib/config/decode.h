// Decodes a normalised tree to a Config or MachineShape and reports every mistake. A Config also
// gets the origin of each value.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/threads/topology.h"
#include "config/yaml/tree.h"

namespace trainer::config {

struct Decoded {
  Config config;
  std::map<std::string, Origin> origins;    // origins of the tree's values, keyed by dotted path
  std::map<std::string, SourceLoc> places;  // the places of the keys
  std::set<std::string> broken;             // paths whose value could not be read
};

// Reading stops after this many errors, because each message may list all allowed keys.
inline constexpr std::size_t kMaxDiagnostics = 1000;

// Stops after kMaxDiagnostics errors.
Decoded decode(const Node& root, std::vector<Diagnostic>& diagnostics);
MachineShape decode_machine(const Node& root, std::vector<Diagnostic>& diagnostics);

// Checks for mistakes in the combination of values, without the data. Does nothing where decode()
// has stopped, and stops itself after kMaxDiagnostics errors.
void check(const Decoded& decoded, std::vector<Diagnostic>& diagnostics);

}  // namespace trainer::config
