#include "results/prediction_speed.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"

namespace trainer::results {

Latency make_latency(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const auto find_ms = [&](double share) {
    const auto rank = std::ceil(share * static_cast<double>(seconds.size()));
    return 1000 * seconds[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  return {find_ms(0.5), find_ms(0.9), find_ms(0.99), std::ssize(seconds)};
}

void fields(FieldVisitor& v, BatchSpeed& speed) {
  v("batch_size", speed.batch_size, kSamples, "Images of a call.");
  v("images_per_second", speed.images_per_second, kImagesPerSecond, "Median over rounds.");
}

void fields(FieldVisitor& v, Latency& latency) {
  v("p50_ms", latency.p50_ms, {"ms", 0}, "The time that half of the calls do not exceed.");
  v("p90_ms", latency.p90_ms, {"ms", 0}, "The time that 90 % of the calls do not exceed.");
  v("p99_ms", latency.p99_ms, {"ms", 0}, "The time that 99 % of the calls do not exceed.");
  v("calls", latency.calls, {"calls", 0}, "Measured calls.");
}

void fields(FieldVisitor& v, PredictionSpeed& speed) {
  v.event("prediction_speed");
  v("latency", speed.latency, "The time of a call with one image in memory.");
  v("by_batch", speed.by_batch, "Throughput of calls with images in memory.");
}

void print(const PredictionSpeed& speed, std::ostream& out) {
  const Latency& latency = speed.latency;
  out << "one image: p50 " << fixed(latency.p50_ms, 2) << " ms, p90 " << fixed(latency.p90_ms, 2)
      << " ms, p99 " << fixed(latency.p99_ms, 2) << " ms over " << latency.calls << " calls\n";
  std::vector<std::string> sizes{"batch"}, rates{"images/second"};
  for (const BatchSpeed& batch : speed.by_batch) {
    sizes.push_back(std::to_string(batch.batch_size));
    rates.push_back(fixed(batch.images_per_second, 1));
  }
  Table table(sizes, NumbersFrom{1});
  table.add(rates);
  table.print(out);
}

std::string PredictionRates::text() const {
  const auto rate = [&](double of_seconds) {
    return concat(fixed(static_cast<double>(images) / of_seconds, 1), " images/second");
  };
  return concat(counted(images, "image"), " in ", fixed(seconds, 2), " s: ", rate(seconds),
                "; a thread reads ", rate(read_seconds), ", the model predicts ",
                rate(predict_seconds), " and waited for images for ",
                std::lround(100 * wait_seconds / seconds), " % of the time");
}

void fields(FieldVisitor& v, PredictionRates& rates) {
  const auto rate = [&](double seconds) { return static_cast<double>(rates.images) / seconds; };
  v.event("predicted");
  v("images", rates.images, kSamples, "Predicted images.");
  v("seconds", rates.seconds, kSeconds, "Time from the first image to the last.");
  v.derived("images_per_second", rate(rates.seconds), kImagesPerSecond, "Images of this time.");
  v.derived("read_images_per_second", rate(rates.read_seconds), kImagesPerSecond,
            "Images that one thread reads, decodes and resizes.");
  v.derived("predict_images_per_second", rate(rates.predict_seconds), kImagesPerSecond,
            "Images of the time in the model.");
  v.derived("wait_share", rates.wait_seconds / rates.seconds, kShare,
            "Share of the time in which the model waited for images.");
}

}  // namespace trainer::results
