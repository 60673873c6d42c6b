// The rates of schedule.reduce_on_plateau equal Keras's; fixture: test/keras/make_fixtures.py.
#include "train/schedule/plateau.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "support/source_files.h"

namespace trainer::train {

TEST_CASE("reduce_on_plateau: the rates are those of Keras's ReduceLROnPlateau") {
  std::ifstream file(test::source_file("test/keras/plateaus.json"));
  REQUIRE(file);
  const auto fixture = nlohmann::json::parse(file);
  REQUIRE(fixture["cases"].size() > 0);
  const double rate = fixture["learning_rate"];
  for (const auto& example : fixture["cases"]) {
    const std::string name = example["name"];
    CAPTURE(name);
    const std::string text =
        "model: {layers: [flatten, dense: 10]}\n"
        "data: {format: synthetic, validation_split: 0.1}\ntrain: {epochs: 1}\n"
        "schedule: {reduce_on_plateau: " +
        example["schedule"].dump() + "}\n";
    const auto config = config::parse_config(text, "plateau", {}, {}).config;
    const auto& plateau = std::get<config::ReduceOnPlateauSchedule>(config.schedule.kind);
    PlateauState state;
    int reductions = 0;
    for (std::size_t i = 0; i < example["values"].size(); ++i) {
      CAPTURE(i);
      const double before = state.factor;
      const auto step = static_cast<std::int64_t>(i);
      state = after_evaluation(state, plateau, step, example["values"][i], rate);
      reductions += state.factor < before ? 1 : 0;
      CHECK(rate * state.factor ==
            doctest::Approx(example["rates"][i].get<double>()).epsilon(1e-6));
      CHECK(after_evaluation(state, plateau, step, 1e9, rate) == state);  // a step counts once
    }
    CHECK(reductions > 1);
  }
}

TEST_CASE("reduce_on_plateau: NaN is not an improvement") {
  config::ReduceOnPlateauSchedule plateau;
  plateau.patience = 1;
  PlateauState state = after_evaluation({}, plateau, 1, 0.5, 0.1);
  CHECK(state.factor == 1);
  state = after_evaluation(state, plateau, 2, std::nan(""), 0.1);
  CHECK(state.best == 0.5);
  CHECK(state.factor == doctest::Approx(0.1));
}

}  // namespace trainer::train
