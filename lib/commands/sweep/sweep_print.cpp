#include "commands/sweep/sweep_print.h"

#include <ostream>

#include "base/error.h"
#include "base/formats/duration.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "results/sweeps/table_json.h"

namespace trainer::commands {
namespace {

constexpr const char* kClearRestOfLine = "\x1b[K";  // an escape sequence of terminals

// Returns "1:05" for 65 seconds, and "?" for nothing.
std::string format_eta(std::optional<double> seconds) {
  return seconds ? clock_time(*seconds) : "?";
}

}  // namespace

SweepPrinter::SweepPrinter(const SweepPrinterOptions& options, std::size_t points,
                           std::ostream& out)
    : options_(options), is_silent_(options.quiet || options.json), points_(points), out_(out) {}

void SweepPrinter::on_start(std::size_t index, const results::Point& point) {
  name_ = point.name;
  if (!is_silent_ && !options_.is_terminal)
    out_ << place(index) << name_ << ": starts" << std::endl;
}

void SweepPrinter::on_progress(std::size_t index, std::int64_t step, std::int64_t total,
                               std::optional<double> eta_seconds) {
  if (is_silent_ || !options_.is_terminal) return;
  out_ << '\r' << place(index) << name_ << "  step " << step << '/' << total << "  eta "
       << format_eta(eta_seconds) << kClearRestOfLine << std::flush;
}

void SweepPrinter::on_end(std::size_t index, const results::PointState& state,
                          std::optional<double> eta_seconds) {
  if (options_.json)
    out_ << results::point_json(state, options_.checkpoint, eta_seconds) << std::endl;
  if (is_silent_) return;
  if (options_.is_terminal) out_ << '\r';
  out_ << place(index) << state.point.name << ": " << to_string(state.kind);
  if (state.has_failed()) out_ << ": " << printable(state.message);
  if (state.run) out_ << ", " << fixed(results::images_per_second(*state.run), 1) << " images/s";
  if (eta_seconds && *eta_seconds > 0) out_ << ", eta " << format_eta(eta_seconds);
  out_ << (options_.is_terminal ? kClearRestOfLine : "") << std::endl;
}

std::string SweepPrinter::place(std::size_t index) const {
  return concat("[", index + 1, "/", points_, "] ");
}

}  // namespace trainer::commands
