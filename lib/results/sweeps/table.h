// The table of a sweep, for people and programs.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/formats/table.h"
#include "results/sweeps/summary.h"

namespace trainer::results {

// A number of every row.
struct Column {
  std::string key;      // the name in CSV and JSON, with its unit: "total_seconds"
  std::string heading;  // the name for people
  int decimals = 0;
  std::function<std::optional<double>(const SummaryRow&)> value;  // nothing: there is none
  bool is_share = false;  // printed to people as a whole percentage
};
std::vector<Column> list_columns();
// Returns the columns for which some row has a number.
std::vector<Column> choose_columns(const Summary& summary);
// Returns, for people, the values and the numbers of the rows of these indices, in their order.
// Columns that repeat a value are left out, and an interval is one column. Verdicts, which are
// sentences, are not part of the table.
Table make_table(const Summary& summary, const std::vector<std::size_t>& rows);

// Prints aligned columns, and the verdicts below them. With `columns`, the width of a terminal,
// leaves out columns from the right until the table above the verdicts fits, but keeps the values
// of a point and one column more.
void print_table(const Summary& summary, std::optional<int> columns, std::ostream& out);
// Prints the table as print_table() does, the points that failed and the paths of the files of the
// sweep in `folder`.
void print_summary(const Summary& summary, const Path& folder, std::optional<int> columns,
                   std::ostream& out);
std::string table_csv(const Summary& summary);  // the numbers have all digits
std::string table_markdown(const Summary& summary);

// The keys of table.json and `sweep --json`.
void fields(FieldVisitor& v, Summary& summary);
// A point that is over. What it does not have is empty.
struct SweepPoint {
  std::string name, state;
  std::vector<std::pair<std::string, std::string>> values;
  std::optional<int> code;
  std::optional<std::string> message;
  std::optional<double> images_per_second, total_seconds, accuracy;
  std::string checkpoint;
};
// The line of such a point.
struct PointEvent {
  SweepPoint point;
  std::optional<double> eta_seconds;
};
void fields(FieldVisitor& v, PointEvent& event);
// Returns the line without its end.
std::string point_json(const PointState& state, CheckpointChoice checkpoint,
                       std::optional<double> eta_seconds);
// table.csv, table.json and table.md in the sweep's folder.
void write_tables(const Summary& summary, const Path& folder);

}  // namespace trainer::results
