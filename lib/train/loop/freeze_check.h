// Checks that frozen variables have the same bits at the end of a stage as at its start.
#pragma once

#include <map>
#include <string>

#include "engine/engine.h"

namespace trainer::train {

class FreezeCheck {
 public:
  // Stores hashes of the engine's current frozen parameters and statistics.
  explicit FreezeCheck(const engine::Engine& engine);
  // Throws CheckError naming every variable that differs.
  void check(const engine::Engine& engine) const;
  std::size_t tensors() const { return hashes_.size(); }

 private:
  std::map<std::string, std::string> hashes_;  // SHA-256 by name
};

}  // namespace trainer::train
