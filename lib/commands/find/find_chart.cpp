#include "base/error.h"
#include "commands/find/find.h"

namespace trainer::commands {

results::Chart make_chart(const RangeTest& test) {
  results::Chart chart{"learning-rate-range",
                       "Loss over the learning rate",
                       "learning rate",
                       "loss (mean over samples)",
                       {{"loss", {}}, {"smoothed", {}}}};
  chart.log_x = true;
  for (const RangeTest::Point& point : test.points) {
    chart.series[0].points.emplace_back(point.rate, point.loss);
    chart.series[1].points.emplace_back(point.rate, point.smoothed);
  }
  if (test.suggestion) {
    chart.mark =
        results::Chart::Mark{*test.suggestion, "suggestion " + format_rate(*test.suggestion)};
  }
  return chart;
}

results::Chart make_chart(const BatchSizes& sizes) {
  results::Chart chart{"batch-size",
                       "Throughput over the batch size",
                       "batch size of a replica (samples)",
                       "images/second",
                       {{"measured", {}}}};
  chart.y_from_zero = chart.log_x = true;
  for (const BatchSizes::Point& point : sizes.points) {
    chart.series[0].points.emplace_back(static_cast<double>(point.batch_size),
                                        point.images_per_second);
  }
  if (sizes.knee > 0) {
    chart.mark =
        results::Chart::Mark{static_cast<double>(sizes.knee), concat("suggestion ", sizes.knee)};
  }
  return chart;
}

}  // namespace trainer::commands
