#include "commands/watch/command.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/numbers/seconds.h"
#include "base/text.h"
#include "commands/watch/screen.h"
#include "inference/open_model/source.h"
#include "results/pages/html.h"
#include "results/write_json.h"
#include "train/signals.h"

namespace trainer::commands {
namespace {

using results::RunState;
using results::WatchedRun;
using Clock = std::chrono::steady_clock;

// Control sequences of xterm: the second screen, which leaves the user's own one as it is, the
// first cell, and the rest of a line or of the screen.
constexpr const char* kEnterScreen = "\x1b[?1049h";
constexpr const char* kLeaveScreen = "\x1b[?1049l";
constexpr const char* kHome = "\x1b[H";
constexpr const char* kClearLine = "\x1b[K";
constexpr const char* kClearScreen = "\x1b[J";

// Throws DataError for what neither is a run nor may become one: a file, or a folder with other
// content.
void check_may_be_run(const Path& run) {
  const bool is_folder = std::filesystem::is_directory(run);
  if (!is_folder && !path_exists(run)) return;
  const bool may_start =
      is_folder && (std::filesystem::is_empty(run) || path_exists(run / "lock") ||
                    path_exists(run / "config.yaml"));
  if (!may_start) inference::check_is_run(run);
}

// Returns whether the terminal shows characters that are not ASCII, by its locale.
bool has_unicode(const Environment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = to_lower(read_variable(environment, name));
    if (!locale.empty()) return locale.ends_with("utf-8") || locale.ends_with("utf8");
  }
  return false;
}

// Shows the runs on the terminal's second screen. Its end leaves the last state on the first one.
class Screen {
 public:
  explicit Screen(const Context& context) : context_(context) { context_.out << kEnterScreen; }
  ~Screen() {
    context_.out << kLeaveScreen;
    for (const std::string& line : lines_) context_.out << line << '\n';
    context_.out << std::flush;
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void show(const std::vector<WatchedRun>& runs) {
    ScreenSize size{.has_blocks = has_unicode(context_.environment)};
    if (context_.columns) size.columns = context_.columns();
    if (context_.rows) size.rows = context_.rows();
    lines_ = draw_screen(runs, size);
    context_.out << kHome;
    for (const std::string& line : lines_) context_.out << line << kClearLine << '\n';
    context_.out << kClearScreen << std::flush;
  }

 private:
  const Context& context_;
  std::vector<std::string> lines_;
};

// Returns the reports of the runs as one page.
results::Document make_page(const std::vector<WatchedRun>& runs, int refresh_seconds) {
  results::Document page{"Runs in training"};
  page.refresh_seconds = refresh_seconds;
  results::Mistakes mistakes;
  mistakes.reason = "`trainer report` shows them once the run has ended";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const results::RunProgress& progress = runs[i].progress;
    page.add(results::Heading{progress.folder.string()});
    page.add(results::Paragraph{describe_run(progress)});
    for (const std::string& warning : progress.warnings) page.add(Notice(warning));
    try {
      results::Document report = results::run_report(results::read_run(progress.folder), mistakes);
      for (results::Block& block : report.blocks) {
        auto* const charts = std::get_if<results::Charts>(&block.content);
        if (charts == nullptr || runs.size() == 1) continue;
        for (results::Chart& chart : *charts) chart.id += concat("-", i + 1);
      }
      page.append(std::move(report));
    } catch (const std::runtime_error&) {
      // The run has not begun or cannot be read, as its line reports.
    }
  }
  return page;
}

// Sleeps between two looks. Returns false on a signal.
bool wait(double seconds) {
  constexpr std::chrono::milliseconds kPoll{50};
  const Clock::time_point start = Clock::now();
  while (train::SignalWatch::received() == nullptr) {
    if (seconds_since(start) >= seconds) return true;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

// Prints the runs that have changed, and writes the page after a change.
class Printer {
 public:
  Printer(const WatchArguments& arguments, const Context& context)
      : arguments_(arguments), context_(context), shown_(arguments.runs.size()) {
    if (context.out_is_terminal && !arguments.json) screen_.emplace(context);
  }

  void print(const std::vector<WatchedRun>& runs, bool is_last) {
    bool has_changed = false;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      std::string line = arguments_.json ? results::to_line(runs[i].progress)
                                         : describe_run(runs[i].progress) + '\n';
      if (line == shown_[i]) continue;
      shown_[i] = std::move(line);
      has_changed = true;
      if (!screen_) context_.out << shown_[i];
    }
    context_.out << std::flush;
    if (screen_) screen_->show(runs);
    if (arguments_.html.empty() || !(has_changed || is_last)) return;
    const int refresh = is_last ? 0 : static_cast<int>(std::ceil(arguments_.seconds));
    results::write_report(make_page(runs, refresh), arguments_.html, {});
  }

 private:
  const WatchArguments& arguments_;
  const Context& context_;
  std::vector<std::string> shown_;  // the last line of each run
  std::optional<Screen> screen_;
};

}  // namespace

int execute(const WatchArguments& arguments, const Context& context) {
  for (const std::string& run : arguments.runs) check_may_be_run(run);
  if (!arguments.html.empty()) check_output_path("--html", arguments.html, arguments.overwrite);
  const train::SignalWatch signals;
  Printer printer(arguments, context);
  std::vector<WatchedRun> runs(arguments.runs.size());
  const auto have_all = [&](const std::function<bool(RunState)>& property) {
    return std::ranges::all_of(runs,
                               [&](const WatchedRun& run) { return property(run.progress.state); });
  };
  bool is_last = false;
  do {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      results::look_at_run(arguments.runs[i], runs[i]);
    }
    is_last = have_all(results::is_over);
    printer.print(runs, is_last);
  } while (!is_last && context.out && wait(arguments.seconds));
  const bool are_finished = have_all([](RunState state) { return state == RunState::kFinished; });
  return is_last && !are_finished ? kExitData : kExitOk;
}

}  // namespace trainer::commands
