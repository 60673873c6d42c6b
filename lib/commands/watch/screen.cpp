#include "commands/watch/screen.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/columns.h"
#include "base/formats/duration.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "results/page/text_chart.h"
#include "results/pages/html.h"

namespace trainer::commands {
namespace {

using Lines = std::vector<std::string>;
using results::RunProgress;

constexpr int kMaxChartRows = 8;
constexpr std::size_t kMaxWarnings = 2;  // per run on a screen
constexpr std::string_view kIndent = "  ";

// Breaks a text between words into lines, of which the later ones are indented. Cuts longer words.
Lines wrap(const Lines& words, std::string_view gap, std::size_t columns,
           std::string_view first_indent = "") {
  Lines lines;
  for (const std::string& word : words) {
    if (!lines.empty() &&
        count_columns(lines.back()) + gap.size() + count_columns(word) <= columns) {
      lines.back() += concat(gap, word);
    } else {
      lines.push_back(concat(lines.empty() ? first_indent : kIndent, word));
    }
  }
  for (std::string& line : lines) line = first_columns(line, columns);
  return lines;
}

std::string describe_metrics(const std::string& split, const results::SplitProgress& metrics) {
  std::string text = concat(split, " loss ", fixed_or_dash(metrics.loss, 4));
  if (std::isfinite(metrics.accuracy)) text += concat(" accuracy ", fixed(metrics.accuracy, 4));
  return text;
}

// Returns whether the state needs an explanation beside that of a finished run.
bool has_reason(const RunProgress& progress) {
  return !progress.reason.empty() && progress.state != results::RunState::kFinished;
}

// Returns what is known of a run, the most important first.
Lines list_facts(const RunProgress& progress) {
  const bool is_finished = progress.state == results::RunState::kFinished;
  Lines facts{concat(printable(progress.folder.string()), ": ", spell(progress.state),
                     is_finished ? concat(" (", progress.reason, ")") : "")};
  if (progress.total_steps == 0) return facts;
  facts.push_back(concat("step ", progress.step, "/", progress.total_steps));
  if (progress.epochs > 0) {
    facts.push_back(
        concat("epoch ", fixed(progress.epoch, 1), "/", significant(progress.epochs, 4)));
  }
  if (progress.seconds_left) facts.push_back("eta " + clock_time(*progress.seconds_left));
  for (const auto& [split, metrics] : progress.metrics) {
    facts.push_back(describe_metrics(split, metrics));
  }
  if (std::isfinite(progress.images_per_second)) {
    facts.push_back(concat(grouped(std::llround(progress.images_per_second)), " images/s"));
  }
  if (std::isfinite(progress.wait_share)) {
    facts.push_back(concat("wait ", fixed(100 * progress.wait_share, 0), " %"));
  }
  facts.push_back(counted(progress.replicas, "replica"));
  if (progress.straggler) facts.push_back(concat("straggler rank ", *progress.straggler));
  if (const auto& best = progress.best) {
    facts.push_back(concat("best ", printable(best->metric), ' ', fixed(best->value, 4),
                           " at step ", best->step));
  }
  return facts;
}

// Returns the charts of loss and accuracy side by side.
Lines draw_charts(const results::RunFiles& files, const results::TextChartSize& size) {
  constexpr int kGap = 2;
  const std::size_t half = (size.columns - kGap) / 2;
  std::vector<Lines> drawn;
  for (const results::Chart& chart : results::run_charts(files)) {
    if (chart.id != "loss" && chart.id != "accuracy") continue;
    drawn.push_back(
        results::text_chart(chart, {static_cast<int>(half), size.rows, size.has_blocks}));
  }
  Lines lines;
  for (const Lines& chart : drawn) {
    for (std::size_t i = 0; i < chart.size(); ++i) {
      if (i == lines.size()) lines.emplace_back();
      const std::size_t used = count_columns(lines[i]);
      if (used > 0) lines[i].append(half + kGap - std::min(used, half), ' ');
      lines[i] += chart[i];
    }
  }
  return lines;
}

Lines draw_run(const results::WatchedRun& run, int chart_rows, const ScreenSize& size) {
  const auto columns = static_cast<std::size_t>(std::max(size.columns - 1, 1));
  const RunProgress& progress = run.progress;
  Lines lines = wrap(list_facts(progress), kIndent, columns);
  const auto append = [&](const Lines& more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  const auto append_text = [&](const std::string& text) {
    append(wrap(split_text(printable(text), ' '), " ", columns, kIndent));
  };
  if (has_reason(progress)) append_text(progress.reason);
  append(draw_charts(run.files, {size.columns - 1, chart_rows, size.has_blocks}));
  const std::vector<std::string>& warnings = progress.warnings;
  for (std::size_t i = warnings.size() - std::min(warnings.size(), kMaxWarnings);
       i < warnings.size(); ++i) {
    append_text("warning: " + warnings[i]);
  }
  return lines;
}

}  // namespace

std::string describe_run(const RunProgress& progress) {
  Lines facts = list_facts(progress);
  if (has_reason(progress)) facts.push_back(printable(progress.reason));
  if (!progress.warnings.empty()) {
    facts.push_back("warning: " + printable(progress.warnings.back()));
  }
  return join(facts, kIndent);
}

std::vector<std::string> draw_screen(const std::vector<results::WatchedRun>& runs,
                                     const ScreenSize& size) {
  const auto room = static_cast<std::size_t>(std::max(size.rows - 1, 1));
  Lines lines;
  for (int chart_rows = kMaxChartRows; chart_rows >= 0; --chart_rows) {
    lines.clear();
    for (const results::WatchedRun& run : runs) {
      const Lines drawn = draw_run(run, chart_rows, size);
      lines.insert(lines.end(), drawn.begin(), drawn.end());
    }
    if (lines.size() <= room) return lines;
  }
  const auto hidden = static_cast<std::int64_t>(lines.size() - room + 1);
  lines.resize(room);
  lines.back() =
      first_columns(concat("... ", counted(hidden, "more line"), "; a higher terminal shows them"),
                    static_cast<std::size_t>(std::max(size.columns - 1, 1)));
  return lines;
}

}  // namespace trainer::commands
