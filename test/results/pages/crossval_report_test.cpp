#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "results/pages/html.h"
#include "support/contains.h"

namespace trainer::results::crossval_report_test {
namespace {

using test::contains;

// The page of a folder with this crossval.json.
std::string make_page(std::string json) {
  if (json.starts_with("{")) json.insert(1, R"("event": "crossval", "name": "faces", )");
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "crossval.json") << json;
  Summary summary;
  summary.name = "faces";
  return render_html(crossval_report(summary, {}, folder.path()));
}

}  // namespace

TEST_CASE("crossval report shows metrics and folds of a model without probabilities") {
  const std::string page = make_page(
      R"({"count": 1200, "checkpoint": "best", "classes": [], "folds": [
          {"fold": 1, "step": 70, "count": 700}, {"fold": 2, "step": 80, "count": 500}],
          "metrics": {"loss": {"mean": 0.25, "low": 0.125, "high": null, "all": 0.5,
                               "folds": [0.75, null]}}})");
  CHECK(contains(page, "<h1>Cross-validation faces</h1>"));
  CHECK(contains(page, "<b>1,200 samples, 2 folds, each sample predicted by the run"));
  CHECK(contains(page, "with the best checkpoint</b>"));
  CHECK(contains(page,
                 "loss</th><td class=\"n\">0.2500</td><td class=\"n\">0.1250 to -</td>"
                 "<td class=\"n\">0.5000</td>"));
  CHECK(contains(page,
                 "1</th><td class=\"n\">700</td><td class=\"n\">70</td><td "
                 "class=\"n\">0.7500</td>"));
  CHECK(contains(page,
                 "2</th><td class=\"n\">500</td><td class=\"n\">80</td><td "
                 "class=\"n\">-</td>"));
  CHECK_FALSE(contains(page, "Probabilities"));
  CHECK_FALSE(contains(page, "true class"));
}

TEST_CASE("crossval report shows the confusion matrix with names escaped") {
  const std::string page = make_page(
      R"({"count": 12, "checkpoint": "last", "classes": ["a<b", "c"], "folds": [], "metrics": {},
          "confusion": [[5, 1], [2, 4]]})");
  CHECK(contains(page,
                 "a&lt;b</th><td class=\"n\" style=\"background:rgba(11,98,196,0.502)\">5 "
                 "<small>83 %</small></td><td class=\"n\" style=\"background:rgba(200,40,40,"
                 "0.225)\">1 <small>17 %</small></td>"));
  CHECK(contains(page, ">2 <small>33 %</small></td>"));
  CHECK(contains(page, ">4 <small>67 %</small></td>"));
}

TEST_CASE("crossval report: the headline has the share that is right, 100 % only of all") {
  const auto headline = [](int right, int wrong) {
    const std::string page = make_page(concat(R"({"count": )", right + wrong,
                                              R"(, "checkpoint": "last", "classes": ["a", "b"],
            "folds": [], "metrics": {}, "confusion": [[)",
                                              right, ", ", wrong, "], [0, 0]]}"));
    const std::size_t begin = page.find("<b>") + 3;
    return page.substr(begin, page.find(" samples)") - begin);
  };
  CHECK(headline(9, 3) == "75 % right (9 of 12");
  CHECK(headline(1999, 1) == "99 % right (1,999 of 2,000");
  CHECK(headline(2000, 0) == "100 % right (2,000 of 2,000");
}

TEST_CASE("crossval report: the error of a confusion matrix that is too small names the file") {
  CHECK_THROWS_WITH_AS(
      make_page(R"({"count": 12, "checkpoint": "last", "classes": ["a", "b"], "folds": [],
                    "metrics": {}, "confusion": [[5, 1], [2]]})"),
      doctest::Contains("crossval.json"), DataError);
}

TEST_CASE("crossval report: the error of a damaged file names it and the next step") {
  for (const char* text : {"{\"count\": 3}", "[1]", "{\"count\": 3.5, \"checkpoint\": \"last\"}"}) {
    CHECK_THROWS_WITH_AS(make_page(text), doctest::Contains("crossval.json"), DataError);
    CHECK_THROWS_WITH_AS(make_page(text), doctest::Contains("again with --collect"), DataError);
  }
}

}  // namespace trainer::results::crossval_report_test
