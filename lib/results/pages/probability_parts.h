// Charts and tables of calibration, curves, operating points, abstention and thresholds, from the
// JSON of `evaluate` and `crossval`.
#pragma once

#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/json_member.h"
#include "results/json.h"
#include "results/page/svg.h"
#include "results/run_files/result_files.h"

namespace trainer::results {

// A file of a command that a report shows.
struct StoredFile {
  Path path;
  std::string advice;  // the way to write it again
  std::optional<nlohmann::ordered_json> json;

  // Reads the file, if there is one. Throws DataError if it does not hold an object.
  StoredFile(Path file, std::string advice_on_file)
      : path(std::move(file)),
        advice(std::move(advice_on_file)),
        json(read_json_file({path.string(), advice})) {}

  // Returns what `make` makes of the content, or an empty value without a file. Throws DataError if
  // the content lacks something.
  template <class Make>
  auto read(const Make& make) const -> decltype(make(*json)) {
    if (!json) return {};
    try {
      return make(*json);
    } catch (const std::exception& error) {
      throw DataError(path, concat("is damaged: ", describe_json_error(error), "; ", advice));
    }
  }
};

// The functions below throw an exception if JSON lacks a value that they need.

// Returns the warning of a result that the measured samples contradict; "" if they do not.
std::string contradiction_part(const nlohmann::ordered_json& json);

std::int64_t read_stored_count(const nlohmann::ordered_json& json, const char* key);

// The reliability diagram, and the table of the measures before and after the temperature.
std::vector<Chart> calibration_charts(const nlohmann::ordered_json& json);
std::string calibration_table(const nlohmann::ordered_json& json);
// ROC and precision-recall curves of the classes with the smallest areas, and the table of all
// areas.
std::vector<Chart> curve_charts(const nlohmann::ordered_json& json);
std::string areas_table(const nlohmann::ordered_json& json);
// Returns the criterion and the probability of a threshold, at this temperature, as the start of a
// sentence.
std::string describe_threshold_part(const nlohmann::ordered_json& json,
                                    std::optional<double> temperature);
// A row for each name of samples with their counts.
std::string operating_table(
    const std::vector<std::pair<std::string, const nlohmann::ordered_json*>>& rows);
// The costs of all classes, and what the decisions cost; of many classes the latter alone.
std::string costs_tables(const nlohmann::ordered_json& json);
// A row for each name of samples with the share that gets a class, and the error of these.
std::string abstention_table(
    const std::vector<std::pair<std::string, const nlohmann::ordered_json*>>& rows);
// The threshold of each label.
std::string thresholds_table(const nlohmann::ordered_json& json);

}  // namespace trainer::results
