// Times of predictions as rates and percentiles.
#include "results/prediction_speed.h"

#include <doctest/doctest.h>

#include <sstream>

#include "results/write_json.h"

namespace trainer::results {

TEST_CASE("make_latency: a percentile is the smallest time that so many calls do not exceed") {
  std::vector<double> seconds;
  for (int i = 200; i > 0; --i) seconds.push_back(i / 1000.0);
  const Latency latency = make_latency(seconds);
  CHECK(latency.p50_ms == doctest::Approx(100));
  CHECK(latency.p90_ms == doctest::Approx(180));
  CHECK(latency.p99_ms == doctest::Approx(198));
  CHECK(latency.calls == 200);
  const Latency one = make_latency({0.004});
  CHECK(one.p50_ms == doctest::Approx(4));
  CHECK(one.p99_ms == doctest::Approx(4));
  // The ninth of ten is at 90 %, and only the tenth at 99 %.
  const Latency ten = make_latency({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(ten.p50_ms == doctest::Approx(5000));
  CHECK(ten.p90_ms == doctest::Approx(9000));
  CHECK(ten.p99_ms == doctest::Approx(10000));
}

TEST_CASE("PredictionSpeed prints the latency and the batch sizes side by side, and as JSON") {
  PredictionSpeed speed;
  speed.latency = {1.5, 2.25, 4, 300};
  speed.by_batch = {{1, 400.04}, {16, 512}};
  std::ostringstream text, json;
  print(speed, text);
  CHECK(text.str() ==
        "one image: p50 1.50 ms, p90 2.25 ms, p99 4.00 ms over 300 calls\n"
        "batch              1     16\n"
        "images/second  400.0  512.0\n");
  print_json(speed, json);
  CHECK(json.str() ==
        R"({"event":"prediction_speed","latency":{"p50_ms":1.5,"p90_ms":2.25,"p99_ms":4.0,)"
        R"("calls":300},"by_batch":[{"batch_size":1,"images_per_second":400.04},)"
        R"({"batch_size":16,"images_per_second":512.0}]})"
        "\n");
}

TEST_CASE(
    "PredictionRates are the images by the time of all, of a reading thread and of the model") {
  PredictionRates rates{120, 4, 8, 3, 0.5};
  CHECK(rates.text() ==
        "120 images in 4.00 s: 30.0 images/second; a thread reads 15.0 images/second, the model "
        "predicts 40.0 images/second and waited for images for 13 % of the time");
  CHECK(to_line(rates) ==
        R"({"event":"predicted","images":120,"seconds":4.0,"images_per_second":30.0,)"
        R"("read_images_per_second":15.0,"predict_images_per_second":40.0,"wait_share":0.125})"
        "\n");
}

}  // namespace trainer::results
