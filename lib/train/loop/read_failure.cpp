#include "train/loop/read_failure.h"

#include <stdexcept>

#include "train/loop/checkpointer.h"
#include "train/loop/run_context.h"

namespace trainer::train {

void stop_for_unreadable_data(RunContext& context, Checkpointer& checkpointer) {
  const config::Data& data = context.job.config.data;
  checkpointer.save();
  context.job.group.any_rank(false);  // returns when the chief has saved
  const bool may_replace =
      config::is_image_format(data.format) && data.on_error == config::OnError::kFail;
  if (const std::string& message = context.failure.message(); !message.empty()) {
    throw Error(kExitData,
                concat(message, ". Stopped after step ", context.state.step, ", saved as ",
                       checkpointer.last_checkpoint(),
                       "; go on with --resume when the data can be read again",
                       may_replace ? ", or with --resume --set data.on_error=replace" : ""));
  }
  context.job.group.any_rank(false);  // throws the message of the rank that failed
  throw std::logic_error("a worker that could not read its data has gone on");
}

}  // namespace trainer::train
