// Examples at the end of every command's --help.
#pragma once

namespace CLI {
class App;
}

namespace trainer::app {

// To `app` and all of its commands, which must be there already.
void add_examples(CLI::App& app);

}  // namespace trainer::app
