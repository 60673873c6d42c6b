#include "commands/plan/simulate.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/measure/measured.h"
#include "train/open.h"
#include "train/process_group.h"
#include "train/schedule/step_summary.h"
#include "train/schedule/training_plan.h"

namespace trainer::commands {
namespace {

// The limits of cluster/collective/exchange.cpp, peer_communicator.cpp and halving_doubling.cpp.
constexpr std::int64_t kMaxShortBytes = 64 << 10, kMaxTreeBytes = 4 << 20,
                       kMaxSmallMessageBytes = 16 << 10;

// Returns a number above 0, or 0 if `allows_zero`, times the factor of the unit that follows it
// behind any number of blanks. Throws ConfigError that names what is `expected`.
double parse_quantity(const std::string& name, const std::string& text, bool allows_zero,
                      const std::string& expected, const std::map<std::string, double>& factors) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const char* const begin = std::find_if(rest, end, [](char c) { return c != ' '; });
  const auto unit = factors.find(std::string(begin, end));
  const bool fits = std::isfinite(value) && (value > 0 || (allows_zero && value == 0));
  if (error != std::errc() || !fits || unit == factors.end()) {
    throw ConfigError({}, name, ": expected ", expected, ", found '", text, "'");
  }
  return value * unit->second;
}

constexpr std::int64_t kDecisionBytes =
    static_cast<std::int64_t>(sizeof(train::StepSummary::Values));

std::vector<std::int64_t> counts_to(std::int64_t workers) {
  std::vector<std::int64_t> counts;
  for (std::int64_t count = 1; count < workers; count *= 2) counts.push_back(count);
  counts.push_back(workers);
  return counts;
}

std::string milliseconds(double seconds) {
  return fixed(seconds * 1e3, seconds < 0.1 ? 3 : 1) + " ms";
}

std::string size(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes < 10'000       ? concat(bytes, " bytes")
         : bytes < 10'000'000 ? fixed(value / 1e3, 1) + " kB"
                              : fixed(value / 1e6, 1) + " MB";
}

void print_rows(const std::string& title, const std::vector<Forecast>& rows, std::ostream& out) {
  out << "  " << title << '\n';
  Table table({"workers", "samples per step", "step", "images/s", "efficiency", "communication",
               "hidden behind backward"},
              {0, 1, 2, 3, 4, 5, 6});
  for (const Forecast& row : rows) {
    table.add({grouped(row.workers), grouped(row.samples), milliseconds(row.step_seconds),
               fixed(row.images_per_second, row.images_per_second < 100 ? 1 : 0),
               fixed(row.efficiency, 3), milliseconds(row.communication),
               row.communication > 0 ? percent(row.hidden()) : ""});
  }
  table.print(out, "    ");
}

}  // namespace

double parse_bandwidth(const std::string& name, const std::string& text) {
  const std::map<std::string, double> prefixes{
      {"", 1.0},   {"K", 1e3},     {"M", 1e6},        {"G", 1e9},
      {"T", 1e12}, {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}};
  std::map<std::string, double> factors;
  for (const auto& [prefix, factor] : prefixes) {
    factors[prefix + "bit"] = factors[prefix + "bit/s"] = factor / 8;
    factors[prefix + "B"] = factors[prefix + "B/s"] = factor;
  }
  return parse_quantity(
      name, text, false,
      "a bandwidth above 0 with its unit, such as 100Gbit or 12.5GB/s (K, M, G, T, Ki, Mi or Gi; "
      "bit or B)",
      factors);
}

double parse_seconds(const std::string& name, const std::string& text, bool zero) {
  return parse_quantity(name, text, zero,
                        concat("a time ", zero ? "of at least 0" : "above 0",
                               " with its unit (s, ms, us or ns), such as 120ms"),
                        {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}});
}

double all_reduce_seconds(config::Collective collective, std::int64_t bytes, std::int64_t ranks,
                          const Link& link) {
  if (ranks <= 1) return 0;
  const auto p = static_cast<double>(ranks), n = static_cast<double>(bytes);
  if (bytes * ranks <= kMaxShortBytes) return link.latency + n * (p - 1) / link.bandwidth;
  const bool is_power = std::has_single_bit(static_cast<std::uint64_t>(ranks));
  const double halves = 2 * n * (p - 1) / (p * link.bandwidth);
  const bool is_ring = collective == config::Collective::kRing || !is_power;
  if (is_ring && bytes > kMaxTreeBytes) {
    return 2 * (p - 1) * (link.latency + n / (p * link.bandwidth));
  }
  if (is_ring) return 2 * link.latency + halves;
  const double rounds = std::log2(p);
  if (bytes <= kMaxSmallMessageBytes) return rounds * (link.latency + n / link.bandwidth);
  return (2 * rounds - 1) * link.latency + halves;
}

Forecast forecast(const StepProfile& profile, std::int64_t workers, std::int64_t samples,
                  config::Collective collective, const Link& link) {
  const double growth = static_cast<double>(samples) / static_cast<double>(profile.samples);
  const double alone = profile.constant + (profile.seconds - profile.constant) * growth;
  const double scale = alone / profile.seconds;
  const auto cost = [&](std::int64_t bytes) {
    return all_reduce_seconds(collective, bytes, workers, link);
  };
  Forecast result;
  result.workers = workers;
  result.samples = samples * workers;
  double free = 0, ready = 0;  // when the link is, and the last bucket
  for (const StepProfile::Bucket& bucket : profile.buckets) {
    ready = std::max(ready, bucket.ready * scale);
    const double seconds = cost(bucket.bytes);
    result.communication += seconds;
    free = std::max(free, bucket.ready * scale) + seconds;
  }
  result.exposed = std::clamp(free - ready, 0.0, result.communication);
  double waited = workers > 1 ? cost(kDecisionBytes) : 0;
  for (const std::int64_t bytes : profile.statistics) waited += cost(bytes);
  result.communication += waited;
  result.exposed += waited;
  result.step_seconds = alone + result.exposed;
  result.images_per_second = static_cast<double>(result.samples) / result.step_seconds;
  return result;
}

Simulation simulate(const StepProfile& profile, std::int64_t workers, config::Collective collective,
                    const Link& link) {
  Simulation simulation{link, profile, {}, {}};
  const double one =
      static_cast<double>(profile.samples) / profile.seconds;  // images per second of one worker
  const auto add = [&](std::vector<Forecast>& rows, std::int64_t count, std::int64_t samples) {
    Forecast row = forecast(profile, count, samples, collective, link);
    row.efficiency = row.images_per_second / (static_cast<double>(count) * one);
    rows.push_back(row);
  };
  for (const std::int64_t count : counts_to(workers)) {
    add(simulation.weak, count, profile.samples);
    if (profile.samples >= count) add(simulation.strong, count, profile.samples / count);
  }
  return simulation;
}

Simulation simulate(const SimulationRequest& request, const config::Config& config,
                    const backend::Platform& platform, const std::optional<graph::Graph>& model) {
  if (config.parallel.strategy == config::Parallel::Strategy::kParameterServer) {
    throw ConfigError(config.parallel.loc,
                      "parallel.strategy: --workers predicts all_reduce, whose workers step "
                      "together, and not parameter_server; --set parallel.strategy=all_reduce "
                      "shows how that would scale");
  }
  const Link link{parse_bandwidth("--link", request.link),
                  parse_seconds("--latency", request.latency, true)};
  if (!model) {
    throw DataError("simulation",
                    "needs the model, whose input is unknown without the data; give "
                    "model.input and data.num_classes");
  }
  StepProfile profile;
  if (!request.step_time.empty() || !request.measured.empty()) {
    const std::vector<model::LayerRow> layers = model::layer_table(*model);
    const train::TrainingPlan batch =
        train::plan_steps(config, config.train.batch_size * config.parallel.replicas);
    const double seconds =
        request.measured.empty()
            ? parse_seconds("--step-time", request.step_time)
            : read_step_seconds(request.measured, batch.batch * batch.accumulate);
    if (!request.measured.empty()) check_measured(request.measured, layers, config);
    profile = make_profile(
        seconds,
        concat(request.measured.empty() ? "--step-time" : request.measured, ", divided by FLOPs"),
        config, layers);
  } else {
    const data::Datasets data = train::open_training_data(config, Split::kTrain);
    profile = measure_step(config, platform, *model, *data.train, request.seconds);
  }
  return simulate(profile, request.workers, config.parallel.collective, link);
}

void print_simulation(const Simulation& simulation, std::ostream& out) {
  const StepProfile& profile = simulation.profile;
  out << "\nsimulation\n";
  Table table({"", ""});
  table.add({"link", concat(fixed(simulation.link.bandwidth * 8 / 1e9, 3), " Gbit/s each way, ",
                            fixed(simulation.link.latency * 1e6, 1), " us")});
  table.add({"step of one worker",
             concat(milliseconds(profile.seconds), " for ", profile.samples, " samples, ",
                    milliseconds(profile.constant), " whatever their number; ", profile.source)});
  const std::size_t count = profile.buckets.size();
  table.add(
      {"gradients", concat(size(profile.gradient_bytes()), " in ", counted(count, "bucket"),
                           ", ready after ", milliseconds(profile.buckets.front().ready),
                           count == 1 ? "" : " to " + milliseconds(profile.buckets.back().ready))});
  if (!profile.statistics.empty()) {
    table.add({"batch norm", concat(profile.statistics.size(), " messages per step")});
  }
  table.print(out, "  ");
  print_rows("weak scaling: the samples of a worker stay the same", simulation.weak, out);
  print_rows("strong scaling: the samples of a step stay the same", simulation.strong, out);
}

void fields(results::FieldVisitor& v, StepProfile::Bucket& bucket) {
  v("bytes", bucket.bytes, results::kBytes, "Gradients that are reduced at once.");
  v("ready_seconds", bucket.ready, results::kSeconds, "Time in the step until they are known.");
}

void fields(results::FieldVisitor& v, Forecast& row) {
  v("workers", row.workers, "Workers.");
  v("samples", row.samples, results::kSamples, "Samples of a step of all workers.");
  v("step_seconds", row.step_seconds, results::kSeconds, "Time of a step.");
  v("images_per_second", row.images_per_second, {"images/s", 0}, "Throughput of all workers.");
  v("efficiency", row.efficiency, "Throughput relative to as many times one worker.");
  v("communication_seconds", row.communication, results::kSeconds, "Time of messages in a step.");
  v("exposed_seconds", row.exposed, results::kSeconds, "Communication that lengthens the step.");
  v.derived("hidden", row.hidden(), results::kShare, "Communication that does not.");
}

void fields(results::FieldVisitor& v, Simulation& simulation) {
  StepProfile& profile = simulation.profile;
  v.event("simulation");
  v("bandwidth", simulation.link.bandwidth, {"bytes/s", 0}, "Bandwidth of the link, each way.");
  v("latency", simulation.link.latency, results::kSeconds, "Time of a message's first byte.");
  v("samples", profile.samples, results::kSamples, "Samples of a step of one worker.");
  v("step_seconds", profile.seconds, results::kSeconds, "Time of a step of one worker.");
  v("constant_seconds", profile.constant, results::kSeconds, "Part of it for any samples.");
  v("source", profile.source, "Where the time is from.");
  v.derived("gradient_bytes", profile.gradient_bytes(), results::kBytes, "Gradients of a step.");
  v("buckets", profile.buckets, "The gradients, in the order in which they are sent.");
  v("batch_norm_messages", profile.statistics, results::kBytes, "Size of each message in a step.");
  v("weak", simulation.weak, "Forecasts for the same samples per worker.");
  v("strong", simulation.strong, "Forecasts for the same samples in all.");
}

}  // namespace trainer::commands
