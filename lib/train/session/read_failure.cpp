#include "train/session/read_failure.h"

#include <stdexcept>

#include "train/session/checkpointer.h"
#include "train/session/session.h"

namespace trainer::train {

void stop_for_unreadable_data(Session& session, Checkpointer& checkpointer) {
  const config::Data& data = session.job.config.data;
  checkpointer.save();
  session.job.strategy.any_rank(false);  // returns when the chief has saved
  const bool may_replace =
      config::is_image_format(data.format) && data.on_error == config::OnError::kFail;
  if (const std::string& message = session.failure.message(); !message.empty()) {
    throw Error(kExitData,
                concat(message, ". Stopped after step ", session.state.step, ", saved as ",
                       checkpointer.last_checkpoint(),
                       "; go on with --resume when the data can be read again",
                       may_replace ? ", or with --resume --set data.on_error=replace" : ""));
  }
  session.job.strategy.any_rank(false);  // throws what the rank at fault says
  throw std::logic_error("a worker that could not read its data has gone on");
}

}  // namespace trainer::train
