#include "results/decisions/abstention_report.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "results/write_json.h"
#include "support/contains.h"

namespace trainer::results::abstention_report_test {
namespace {

using test::contains;

// Samples of two classes by the logit of the second.
engine::LabelledLogits make_scores(const std::vector<float>& logits,
                                   const std::vector<std::int32_t>& labels) {
  engine::LabelledLogits scores;
  scores.outputs = 1;
  scores.logits = logits;
  scores.labels = labels;
  return scores;
}

PredictOptions make_options() {
  PredictOptions options;
  options.loss = LossKind::kBinaryCrossEntropy;
  return options;
}

}  // namespace

TEST_CASE("make_abstention_report: the confidence of validation decides about the other split") {
  // Right at 4 and -3, wrong at 2, right at 1.
  const auto validation = make_scores({4, -3, 2, 1}, {1, 0, 0, 1});
  const auto test = make_scores({3, -2.6f, 2.4f, -0.1f, 5}, {1, 1, 0, 0, 0});
  const AbstentionReport report =
      make_abstention_report(0.1, make_options(), validation, Split::kTest, test);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  CHECK(report.confidence == doctest::Approx((sigmoid(3) + sigmoid(2)) / 2));
  const auto json = to_json(report);
  CHECK(json.at("allowed_error") == 0.1);
  CHECK(json.at("validation").at("answered") == 2);
  CHECK(json.at("validation").at("coverage") == 0.5);
  CHECK(json.at("validation").at("error") == 0);
  // The limit is a logit of 2.39, so that four are answered and three of these are wrong.
  CHECK(json.at("answers").at("answered") == 4);
  CHECK(json.at("answers").at("wrong") == 3);
  CHECK(json.at("answers").at("error") == 0.75);
  const std::string text = render_text(show_abstention(report, ""));
  CHECK(contains(text,
                 "abstention: a class from a confidence of 0.9167 on, for an error of "
                 "at most 10.00 %\n"));
  CHECK(contains(text, "\ntest            80.00 % (4 of 5)"));
  CHECK(contains(text, "75.00 % (30.06 % to 95.44 %, 3 of 4)"));
}

TEST_CASE("make_abstention_report: a temperature changes the confidence and not the answers") {
  const auto validation = make_scores({4, -3, 2, 1}, {1, 0, 0, 1});
  PredictOptions options = make_options();
  options.temperature = 2;
  const AbstentionReport report =
      make_abstention_report(0.1, options, validation, Split::kValidation, validation);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  CHECK(report.confidence == doctest::Approx((sigmoid(1.5) + sigmoid(1)) / 2));
  CHECK(to_json(report).at("temperature") == 2);
  CHECK(to_json(report).at("answers") == to_json(report).at("validation"));
  const std::string text = render_text(show_abstention(report, ""));
  CHECK(contains(text, ", for an error of at most 10.00 %, at the temperature 2.0000\n"));
  CHECK_FALSE(contains(text, "test"));
}

TEST_CASE("make_abstention_report decides no class where no confidence keeps the error") {
  const auto validation = make_scores({4, -3}, {0, 0});
  const auto test = make_scores({9, 1, 2}, {1, 1, 1});
  const AbstentionReport report =
      make_abstention_report(0.1, make_options(), validation, Split::kTest, test);
  const auto json = to_json(report);
  CHECK(json.at("confidence").is_null());
  CHECK(json.at("answers").at("answered") == 0);
  CHECK(json.at("answers").at("samples") == 3);
  CHECK(json.at("answers").at("error").is_null());
  CHECK(json.at("answers").at("error_high").is_null());
  CHECK(json.at("operating_point").is_null());
  const std::string text = render_text(show_abstention(report, "; stored in x.json"));
  CHECK(contains(text,
                 "no confidence keeps the error of the validation samples at 10.00 %, "
                 "so that no sample gets a class; stored in x.json\n"));
  CHECK(contains(text, "\ntest             0.00 % (0 of 3)"));
  CHECK(contains(text, "-\n"));
}

}  // namespace trainer::results::abstention_report_test
