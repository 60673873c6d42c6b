// `watch`: follows the files of runs in training, and shows them in the terminal, as lines, as JSON
// or as a page. It needs no connection to the processes.
#pragma once

#include <string>
#include <vector>

#include "commands/context/context.h"

namespace trainer::commands {

struct WatchArguments {
  std::vector<std::string> runs;  // folders, which may not exist yet
  double seconds = 2;             // between two looks at the files
  std::string html;               // the page; none when empty
  bool overwrite = false;         // replaces `html`
  bool json = false;
};
// Returns once nobody trains the runs any more, or on a signal: kExitOk, or kExitData if a run was
// stopped or killed, or is damaged. Throws DataError for a folder that is not that of a run.
int execute(const WatchArguments& arguments, const Context& context);

}  // namespace trainer::commands
