#include "train/loop/read_failure.h"

#include <filesystem>
#include <stdexcept>

#include "base/split.h"
#include "base/text.h"
#include "train/loop/checkpointer.h"
#include "train/loop/run_context.h"
#include "train/run_dir.h"

namespace trainer::train {
namespace {

// Returns the path of an image file or shard that does not exist any more; "" for none.
std::string find_removed_file(const data::Datasets& data) {
  for (const Split split : kSplits) {
    const auto& dataset = data.dataset(split);
    for (std::int64_t i = 0; dataset && i < dataset->size(); ++i) {
      // A shard is named before the sample in it.
      const std::string sample = dataset->describe(i), shard = sample.substr(0, sample.rfind(": "));
      std::error_code error;
      const auto is_missing = [&](const std::string& path) {
        return std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found;
      };
      if (is_missing(sample) && is_missing(shard)) return shard;
    }
  }
  return "";
}

// Returns what the user can do. Folders and shards are listed anew at each start, so that a file of
// them that was removed cannot be replaced; the list of a csv stays.
std::string remedy(const Job& job) {
  const config::Data& data = job.config.data;
  const bool reads_images = config::is_image_format(data.format);
  if (reads_images && data.format != config::DataFormat::kCsv) {
    if (const std::string removed = find_removed_file(job.data); !removed.empty()) {
      return concat("; put ", printable(removed), " back and go on with --resume, or ",
                    new_run_advice(job.run));
    }
  }
  const bool may_replace = reads_images && data.on_error == config::OnError::kFail;
  return concat("; go on with --resume when the data can be read again",
                may_replace ? ", or with --resume --set data.on_error=replace" : "");
}

}  // namespace

void stop_for_unreadable_data(RunContext& context, Checkpointer& checkpointer) {
  checkpointer.save();
  context.job.group.any_rank(false);  // returns when the chief has saved
  if (const std::string& message = context.failure.message(); !message.empty()) {
    throw Error(kExitData, message, ". Stopped after step ", context.state.step, ", saved as ",
                checkpointer.last_checkpoint(), remedy(context.job));
  }
  context.job.group.any_rank(false);  // throws the message of the rank that failed
  throw std::logic_error("a worker that could not read its data has gone on");
}

}  // namespace trainer::train
