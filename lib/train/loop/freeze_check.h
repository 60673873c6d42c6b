// Frozen means frozen: what must not change is bit for bit the same at the end of a run.
#pragma once

#include <map>
#include <string>

#include "engine/replicas.h"

namespace trainer::train {

class FreezeCheck {
 public:
  // Takes note of the engine's frozen parameters and statistics as they are now.
  explicit FreezeCheck(const engine::Replicas& engine);
  // Throws CheckError naming every one that differs.
  void check(const engine::Replicas& engine) const;
  std::size_t tensors() const { return hashes_.size(); }

 private:
  std::map<std::string, std::string> hashes_;  // SHA-256 by name
};

}  // namespace trainer::train
