#include "commands/profile/profile_print.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/table.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;
using engine::StepPhase;

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string in_milliseconds(double seconds) { return fixed(1e3 * seconds, 3); }
std::string format_percent(double share) { return fixed(100 * share, 1) + " %"; }

double least_seconds_of_layers(const Profile& profile) {
  double sum = 0;
  for (const ProfileRow& row : profile.layers.rows) sum += least_seconds(row, profile.limits);
  return sum;
}

void print_limits(const Profile& profile, std::ostream& out) {
  const Limits& limits = profile.limits;
  if (limits.peak_flops > 0) {
    out << "peak: " << fixed(limits.peak_flops / 1e9, 1)
        << " GFLOP/s, measured in 3x3 convolutions by the direct method; a Winograd convolution "
           "needs fewer operations than are counted\n";
  }
  if (limits.bandwidth.memory > 0) {
    out << "limit: the longer of a layer's operations at the peak and of its operands' way through "
           "memory, "
        << fixed(limits.bandwidth.memory / 1e9, 1) << " GB/s, or through the second caches, "
        << fixed(limits.bandwidth.cache / 1e9, 1) << " GB/s, where they fit there; "
        << format_percent(per_second(least_seconds_of_layers(profile), profile.layers.step_seconds))
        << " of the step\n";
  }
}

void print_layers(const Profile& profile, std::ostream& out) {
  const LayerProfile& layers = profile.layers;
  Table table({"layer", "forward, ms", "backward, ms", "share", "GFLOP/s", "of peak", "of limit",
               "implementation"},
              {1, 2, 3, 4, 5, 6});
  for (const ProfileRow& row : layers.rows) {
    const double rate = row.is_layer ? per_second(row.flops, row.seconds()) : 0;
    const bool of_peak = rate > 0 && profile.limits.peak_flops > 0;
    const double least = least_seconds(row, profile.limits);
    table.add({row.name, in_milliseconds(row.forward_seconds),
               row.is_layer ? in_milliseconds(row.backward_seconds) : "",
               format_percent(per_second(row.seconds(), layers.step_seconds)),
               rate > 0 ? fixed(rate / 1e9, 1) : "",
               of_peak ? format_percent(rate / profile.limits.peak_flops) : "",
               least > 0 ? format_percent(per_second(least, row.seconds())) : "",
               row.implementations});
  }
  table.print(out);
  out << "all rows " << in_milliseconds(layers.seconds_of_rows()) << " ms, "
      << format_percent(per_second(layers.seconds_of_rows(), layers.step_seconds))
      << " of a step of " << in_milliseconds(layers.step_seconds) << " ms; layers alone "
      << format_percent(per_second(layers.seconds_of_layers(), layers.step_seconds)) << '\n';
  print_limits(profile, out);
}

void print_input(const Profile& profile, std::ostream& out) {
  const InputProfile& input = profile.input;
  Table table({"input stage", "ms per image", "images/s of one thread"}, {1, 2});
  const auto add = [&](const std::string& name, double seconds) {
    if (seconds <= 0) return;
    table.add({name, in_milliseconds(seconds), fixed(per_second(1, seconds), 0)});
  };
  for (std::size_t i = 0; i < data::kReadStages; ++i) {
    add(std::string(spell(static_cast<data::ReadStage>(i))), input.stages[i]);
  }
  add("batch", input.batch_seconds);
  add("all", input.seconds_per_sample());
  out << "finding and listing the samples took " << fixed(input.list_seconds, 3) << " s, once\n";
  table.print(out);
  out << "the loader gives " << fixed(input.images_per_second, 0) << " images/s (" << input.loader
      << ")";
  if (input.devices_fed > 0) {
    out << " and can feed " << fixed(input.devices_fed, input.devices_fed < 10 ? 1 : 0)
        << (input.devices_fed == 1 ? " device" : " devices") << " of this speed";
  }
  out << '\n';
  if (input.in_memory) {
    out << "data.threads: the samples are in memory, no thread is needed\n";
  } else if (input.suggested_threads > 0) {
    out << "data.threads: " << input.suggested_threads << " would keep " << profile.layers.ranks
        << (profile.layers.ranks == 1 ? " device" : " devices") << " supplied";
    if (input.suggested_threads > input.cores) {
      out << "; there are " << input.cores
          << " cores, so that the input is the limit: think of data.cache";
    }
    out << '\n';
  }
}

}  // namespace

void print_profile(const Profile& profile, std::ostream& out) {
  const LayerProfile& layers = profile.layers;
  out << layers.timeline.steps.size() << " steps of " << layers.samples << " samples on "
      << layers.device << "\n";
  if (layers.launches_in_flight > 1) {
    out << "as training runs them, " << layers.launches_in_flight
        << " in flight: " << in_milliseconds(layers.loop_seconds) << " ms per step, "
        << fixed(per_second(static_cast<double>(layers.samples), layers.loop_seconds), 0)
        << " images/s; the times below are of steps that are waited for\n";
  }
  if (layers.has_layers) {
    print_layers(profile, out);
  } else {
    out << "this device does not record the times of its layers\n";
  }
  out << "time of a step: " << engine::describe(layers.times) << '\n';
  print_input(profile, out);
}

void print_profile_json(const Profile& profile, std::ostream& out) {
  const LayerProfile& layers = profile.layers;
  Json rows = Json::array();
  for (const ProfileRow& row : layers.rows) {
    rows.push_back({{"name", row.name},
                    {"layer", row.is_layer},
                    {"forward_seconds", row.forward_seconds},
                    {"backward_seconds", row.backward_seconds},
                    {"flops", row.flops},
                    {"bytes", row.bytes},
                    {"least_seconds", least_seconds(row, profile.limits)},
                    {"implementations", row.implementations}});
  }
  Json stages = Json::object();
  for (std::size_t i = 0; i < data::kReadStages; ++i) {
    stages[spell(static_cast<data::ReadStage>(i))] = profile.input.stages[i];
  }
  stages["batch"] = profile.input.batch_seconds;
  write_event(out, {{"event", "profile"},
                    {"device", layers.device},
                    {"steps", layers.timeline.steps.size()},
                    {"samples", layers.samples},
                    {"step_seconds", layers.step_seconds},
                    {"loop_seconds", layers.loop_seconds},
                    {"launches_in_flight", layers.launches_in_flight},
                    {"rows_seconds", layers.seconds_of_rows()},
                    {"peak_flops", profile.limits.peak_flops},
                    {"memory_bandwidth", profile.limits.bandwidth.memory},
                    {"cache_bandwidth", profile.limits.bandwidth.cache},
                    {"rows", std::move(rows)},
                    {"input",
                     {{"list_seconds", profile.input.list_seconds},
                      {"stage_seconds", std::move(stages)},
                      {"images_per_second", profile.input.images_per_second},
                      {"loader", profile.input.loader},
                      {"devices_fed", profile.input.devices_fed},
                      {"suggested_threads", profile.input.suggested_threads}}}});
}

}  // namespace trainer::commands
