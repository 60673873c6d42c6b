#include "hooks/metric_window.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace trainer::hooks {
std::string MetricWindow::save() const {
  if (empty()) return "";
  std::string text = concat(last_.step, ' ', staleness_max_);
  for (const double value : {last_.epoch, last_.learning_rate, samples_, loss_, correct_, seconds_,
                             waited_, staleness_, steps_, steps_made_}) {
    text += ' ' + significant(value, 17);
  }
  return text;
}

void MetricWindow::restore(const std::string& saved, const RunInfo& info) {
  MetricWindow window;
  double* const values[] = {&window.last_.epoch, &window.last_.learning_rate,
                            &window.samples_,    &window.loss_,
                            &window.correct_,    &window.seconds_,
                            &window.waited_,     &window.staleness_,
                            &window.steps_,      &window.steps_made_};
  const std::vector<std::string> words = split_text(saved, ' ');
  if (words.size() != 2 + std::size(values)) return;
  const auto newest = parse_integer(words[0]), staleness_max = parse_integer(words[1]);
  if (!newest || !staleness_max || *newest > info.first_step) return;
  if (*newest < info.first_step && info.servers.empty()) return;
  window.last_.step = *newest;
  window.staleness_max_ = *staleness_max;
  for (std::size_t i = 0; i < std::size(values); ++i) {
    const auto value = parse_real(words[2 + i]);
    if (!value) return;
    *values[i] = *value;
  }
  if (window.samples_ > 0) *this = window;
}

results::MetricsRow MetricWindow::make_row() const {
  results::MetricsRow row{last_.step, last_.epoch, Split::kTrain};
  row.loss = rounded(loss(), 9);
  row.accuracy = rounded(accuracy(), 9);
  row.learning_rate = rounded(last_.learning_rate, 7);
  row.images_per_second = images_per_second();
  row.wait_share = wait_share();
  row.seconds = seconds_;
  row.steps_per_second = steps_per_second();
  return row;
}

}  // namespace trainer::hooks
