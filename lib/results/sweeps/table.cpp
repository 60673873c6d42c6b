#include "results/sweeps/table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/formats/csv.h"
#include "base/text.h"
#include "results/write_json.h"

namespace trainer::results {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr const char* kIntervalLow = "accuracy_low";
constexpr const char* kIntervalHigh = "accuracy_high";

std::string find_value(const SummaryRow& row, const std::string& key) {
  for (const auto& [name, value] : row.values) {
    if (name == key) return value;
  }
  return "";
}

// Returns whether each row has one run, for the column of runs, or as many replicas as a value of
// the sweep gives, for that of replicas.
bool repeats_value(const Column& column, const Summary& summary) {
  return std::ranges::all_of(summary.rows, [&](const SummaryRow& row) {
    if (column.key == "runs") return row.runs + row.missing == 1;
    if (column.key != "replicas") return false;
    const std::string replicas = std::to_string(row.replicas);
    return row.runs == 0 || find_value(row, "parallel.gpus") == replicas ||
           find_value(row, "parallel.replicas") == replicas;
  });
}

std::string format_cell(const Column& column, const SummaryRow& row) {
  const std::optional<double> value = column.value(row);
  if (!value) return "-";
  if (column.key == kIntervalLow) {
    return concat(fixed(*value, column.decimals), "-", fixed(row.accuracy->high, column.decimals));
  }
  return column.is_share ? whole_percent(*value) : fixed(*value, column.decimals);
}

std::vector<std::size_t> list_rows(const Summary& summary) {
  std::vector<std::size_t> rows(summary.rows.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string text;
  for (const std::string& cell : cells) {
    text += "| ";
    for (const char letter : cell) text += letter == '|' ? "\\|" : std::string(1, letter);
    text += ' ';
  }
  return text;
}

}  // namespace

std::vector<Column> list_columns() {
  using Row = SummaryRow;
  const auto runs_only = [](auto value) {
    return [value](const Row& row) -> std::optional<double> {
      if (row.runs == 0) return std::nullopt;
      const std::optional<double> number = value(row);
      return number && std::isfinite(*number) ? number : std::nullopt;
    };
  };
  const auto accuracy = [&](double Estimate::*part) {
    return runs_only([part](const Row& row) -> std::optional<double> {
      return row.accuracy ? std::optional((*row.accuracy).*part) : std::nullopt;
    });
  };
  const auto real = [&](double Row::*part, double unit = 1) {
    return runs_only([part, unit](const Row& row) { return std::optional(row.*part / unit); });
  };
  const auto maybe = [&](std::optional<double> Row::*part) {
    return runs_only([part](const Row& row) { return row.*part; });
  };
  const auto count = [](std::int64_t Row::*part) {
    return [part](const Row& row) { return std::optional(static_cast<double>(row.*part)); };
  };
  return {{"runs", "runs", 0, count(&Row::runs)},
          {"replicas", "replicas", 0, runs_only([](const Row& row) {
             return std::optional(static_cast<double>(row.replicas));
           })},
          {"accuracy", "accuracy", 4, accuracy(&Estimate::mean)},
          {kIntervalLow, "95 % interval", 4, accuracy(&Estimate::low)},
          {kIntervalHigh, "", 4, accuracy(&Estimate::high)},
          {"loss", "loss", 4, real(&Row::loss)},
          {"images_per_second", "images/s", 1, real(&Row::images_per_second)},
          {"total_seconds", "total time, s", 2, real(&Row::total_seconds)},
          {"wall_seconds", "wall time, s", 2, real(&Row::wall_seconds)},
          {"speed_up", "speed-up", 2, maybe(&Row::speed_up)},
          {"efficiency", "efficiency", 0, maybe(&Row::efficiency), true},
          {"peak_memory_mib", "peak memory, MiB", 0, real(&Row::peak_memory_bytes, kMebibyte)},
          {"wait_share", "data wait", 0, real(&Row::wait_share), true},
          {"all_reduce_share", "all-reduce", 0, maybe(&Row::all_reduce_share), true},
          {"cost", "cost", 4, maybe(&Row::cost)},
          {"energy_joules", "energy, J", 0, maybe(&Row::energy_joules)},
          {"joules_per_image", "J/image", 4, maybe(&Row::joules_per_image)},
          {"seconds_to_accuracy", "time to accuracy, s", 2, maybe(&Row::seconds_to_accuracy)},
          {"cost_to_accuracy", "cost to accuracy", 4, maybe(&Row::cost_to_accuracy)}};
}

std::vector<Column> choose_columns(const Summary& summary) {
  std::vector<Column> columns = list_columns();
  std::erase_if(columns, [&](const Column& column) {
    return std::ranges::none_of(
        summary.rows, [&](const SummaryRow& row) { return column.value(row).has_value(); });
  });
  return columns;
}

Table make_table(const Summary& summary, const std::vector<std::size_t>& rows) {
  std::vector<Column> columns = choose_columns(summary);
  std::erase_if(columns, [&](const Column& column) {
    return column.key == kIntervalHigh || repeats_value(column, summary);
  });
  std::vector<std::string> header = summary.short_names;
  for (const Column& column : columns) header.push_back(column.heading);
  Table table(std::move(header), NumbersFrom{0},
              "Means over the seeds of each combination, the best first");
  for (const std::size_t i : rows) {
    const SummaryRow& row = summary.rows[i];
    std::vector<std::string> line;
    for (const std::string& key : summary.keys) line.push_back(find_value(row, key));
    for (const Column& column : columns) line.push_back(format_cell(column, row));
    table.add(std::move(line));
  }
  return table;
}

void print_table(const Summary& summary, std::optional<int> columns, std::ostream& out) {
  Table table = make_table(summary, list_rows(summary));
  const std::size_t left_out = table.fit_columns(columns, summary.keys.size() + 1);
  table.print(out);
  if (left_out > 0) {
    out << left_out << (left_out == 1 ? " column is" : " columns are")
        << " left out for the width of the terminal; the files of the table have all\n";
  }
  Table verdicts({"point", "verdict"});
  for (const SummaryRow& row : summary.rows) verdicts.add({make_label(summary, row), row.verdict});
  out << '\n';
  verdicts.print(out);
}

std::string table_csv(const Summary& summary) {
  const std::vector<Column> columns = choose_columns(summary);
  std::vector<std::string> fields = summary.keys;
  for (const Column& column : columns) fields.push_back(column.key);
  fields.push_back("verdict");
  std::string text = join(fields, ",") + "\n";
  for (const SummaryRow& row : summary.rows) {
    fields.clear();
    for (const std::string& key : summary.keys) fields.push_back(csv_cell(find_value(row, key)));
    for (const Column& column : columns) {
      const std::optional<double> value = column.value(row);
      fields.push_back(value ? csv_number(*value) : "");
    }
    fields.push_back(csv_cell(row.verdict));
    text += join(fields, ",") + "\n";
  }
  return text;
}

std::string table_markdown(const Summary& summary) {
  const Table table = make_table(summary, list_rows(summary));
  std::string text = markdown_row(table.header()) + "| verdict |\n";
  for (std::size_t i = 0; i < table.header().size(); ++i) text += "| ---: ";
  text += "| :--- |\n";
  for (std::size_t i = 0; i < summary.rows.size(); ++i) {
    text += markdown_row(table.rows()[i]) + markdown_row({summary.rows[i].verdict}) + "|\n";
  }
  for (const std::string& sentence :
       {best_sentence(summary), summary.scored, summary.cached, accuracy_sentence(summary)}) {
    if (!sentence.empty()) text += "\n" + sentence + "\n";
  }
  return text;
}

void write_tables(const Summary& summary, const Path& folder) {
  write_file_atomic(folder / "table.csv", table_csv(summary));
  write_file_atomic(folder / "table.json", to_line(summary));
  write_file_atomic(folder / "table.md", table_markdown(summary));
}

void print_summary(const Summary& summary, const Path& folder, std::optional<int> columns,
                   std::ostream& out) {
  print_table(summary, columns, out);
  for (const std::string& sentence :
       {best_sentence(summary), summary.scored, summary.cached, accuracy_sentence(summary)}) {
    if (!sentence.empty()) out << sentence << '\n';
  }
  for (const PointState& point : summary.points) {
    if (!point.has_failed()) continue;
    out << to_string(point.kind) << ": " << point.point.name << ": " << printable(point.message);
    if (point.kind == PointState::Kind::kFailed) {
      out << " (see " << (folder / point.point.name / "errors.log").string() << ')';
    }
    out << '\n';
  }
  out << "table: " << (folder / "table.md").string()
      << ", table.csv, table.json\nreport: " << (folder / "report.html").string() << '\n';
}

}  // namespace trainer::results
