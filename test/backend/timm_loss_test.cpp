// Fixture: make_timm_fixtures.py.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backend/harness.h"
#include "support/model.h"
#include "support/source_files.h"

namespace trainer::test {
namespace {

using nlohmann::json;

std::vector<double> flatten(const json& rows) {
  std::vector<double> all;
  for (const json& row : rows) {
    if (!row.is_array()) {
      all.push_back(row.get<double>());
      continue;
    }
    for (const double x : row) all.push_back(x);
  }
  return all;
}

// The loss that a config with these options has for `classes` classes.
graph::Loss make_loss(const json& c, std::int64_t classes) {
  std::string text = "{layers: [flatten, dense: " + std::to_string(classes) +
                     "], loss: binary_cross_entropy, label_smoothing: " + c["smoothing"].dump();
  if (!c["threshold"].is_null()) text += ", target_threshold: " + c["threshold"].dump();
  const graph::Graph model = build(text + "}", sample({2, 2, 1}, classes));
  auto loss = std::get<graph::Loss>(model.nodes.back().op);
  loss.gradient = true;
  return loss;
}

TEST_CASE("binary_cross_entropy over classes has the losses and gradients of timm") {
  const json fixture = json::parse(std::ifstream(source_file("test/backend/timm_losses.json")));
  for (const json& c : fixture["cases"]) {
    CAPTURE(c.dump());
    const std::int64_t samples = std::ssize(c["logits"]), classes = std::ssize(c["logits"][0]);
    const bool index = !c["labels"][0].is_array();
    Builder b(DType::kFloat32);
    const graph::ValueId x = b.input({kBatch, classes});
    const graph::ValueId labels = index ? b.input({kBatch}, DType::kInt32, {})
                                        : b.input({kBatch, classes}, DType::kFloat32, {});
    for (const graph::ValueId id : b.add(make_loss(c, classes), {x, labels})) b.output(id);
    backend::CompileOptions options;
    options.max_samples = samples;
    backend::Scalars scalars;
    scalars.loss_scale = 1.0 / static_cast<double>(samples);
    Runner runner(open(setups()[0]), b.graph, options);
    const auto got = runner.run(samples, {flatten(c["logits"]), flatten(c["labels"])}, scalars);
    const double mean =
        std::accumulate(got[0].begin(), got[0].end(), 0.0) / static_cast<double>(samples);
    CHECK(mean == doctest::Approx(c["loss"].get<double>()).epsilon(1e-6));
    const std::vector<double> gradient = flatten(c["gradient"]);
    REQUIRE(got[1].size() == gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      CHECK(std::abs(static_cast<double>(got[1][i]) - gradient[i]) < 1e-7);
    }
  }
}

}  // namespace
}  // namespace trainer::test
