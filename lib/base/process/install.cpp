#include "base/process/install.h"

namespace trainer {

Path find_installed_file(const Path& program, const Path& name) {
  const Path file = name.lexically_normal();
  if (file.empty() || file.is_absolute() || *file.begin() == "..") return {};
  const Path folder = program.parent_path();
  // A wheel has the program in <prefix>/lib/python3.x/site-packages/imagetrainer.
  for (const char* prefix : {"..", "../../../.."}) {
    const Path share = (folder / prefix / "share/trainer").lexically_normal();
    for (const Path& place : {share / file, share / "configs" / file}) {
      if (is_file(place)) return place;
    }
  }
  return {};
}

}  // namespace trainer
