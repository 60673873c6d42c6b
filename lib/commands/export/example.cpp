#include "commands/export/example.h"

#include "base/error.h"
#include "commands/export/example.inl"

namespace trainer::commands {

void write_example(const results::ExportedModel& model, const Path& path) {
  const std::int64_t channels = model.input.shape.back();
  if (!model.resize || !model.resize->range.empty() || (channels != 1 && channels != 3)) {
    throw ConfigError({},
                      "--example reads image files of 8 bits with 1 or 3 channels, which this "
                      "model was not trained on; leave --example out");
  }
  write_file_atomic(path, kExample);
}

}  // namespace trainer::commands
