#include "commands/profile/profile_print.h"

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"

namespace trainer::commands {
namespace {

using results::kSeconds;

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
    out << "data.threads: " << input.suggested_threads << " would keep "
        << counted(profile.layers.ranks, "device") << " supplied";
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

// A row with the least time that its layer could take.
struct TimedRow {
  ProfileRow row;
  double least_seconds = 0;
};

void fields(results::FieldVisitor& v, TimedRow& timed) {
  ProfileRow& row = timed.row;
  v("name", row.name, "The layer, or what else a device does.");
  v("layer", row.is_layer, "Whether it is a layer.");
  v("forward_seconds", row.forward_seconds, kSeconds, "Time of forward in a step.");
  v("backward_seconds", row.backward_seconds, kSeconds, "Time of backward in a step.");
  v("flops", row.flops, {"FLOP", 0}, "Operations of all ranks.");
  v("bytes", row.bytes, results::kBytes, "Operands of all ranks.");
  v("least_seconds", timed.least_seconds, kSeconds, "The least time on this machine; 0: unknown.");
  v("implementations", row.implementations, "How forward and backward are computed.");
}

void fields(results::FieldVisitor& v, InputProfile& input) {
  std::vector<std::pair<std::string, double>> stages;
  for (std::size_t i = 0; i < data::kReadStages; ++i) {
    stages.emplace_back(spell(static_cast<data::ReadStage>(i)), input.stages[i]);
  }
  stages.emplace_back("batch", input.batch_seconds);
  v("list_seconds", input.list_seconds, kSeconds, "Time of finding the samples, once.");
  v.derived("stage_seconds", stages, kSeconds, "Time of a sample on one thread, by stage.");
  v("images_per_second", input.images_per_second, {"images/s", 0}, "Throughput of the loader.");
  v("loader", input.loader, "How it reads ahead.");
  v("devices_fed", input.devices_fed, "Devices that it supplies.");
  v("suggested_threads", input.suggested_threads, "Threads that the devices of the config need.");
}

void fields(results::FieldVisitor& v, Profile& profile) {
  LayerProfile& layers = profile.layers;
  std::vector<TimedRow> rows;
  for (const ProfileRow& row : layers.rows) {
    rows.push_back({row, least_seconds(row, profile.limits)});
  }
  v.event("profile");
  v("device", layers.device, "The device.");
  v.derived("steps", layers.timeline.steps.size(), results::kSteps, "Steps that were recorded.");
  v("samples", layers.samples, results::kSamples, "Samples of a step.");
  v("step_seconds", layers.step_seconds, kSeconds, "Time of a step that is waited for.");
  v("loop_seconds", layers.loop_seconds, kSeconds, "Time of a step as training runs it.");
  v("launches_in_flight", layers.launches_in_flight, "Steps that training has in flight.");
  v.derived("rows_seconds", layers.seconds_of_rows(), kSeconds, "Time of all rows.");
  v("peak_flops", profile.limits.peak_flops, {"FLOP/s", 0}, "Measured peak; 0: not measured.");
  v("memory_bandwidth", profile.limits.bandwidth.memory, {"bytes/s", 0}, "That of memory.");
  v("cache_bandwidth", profile.limits.bandwidth.cache, {"bytes/s", 0}, "That of second caches.");
  v.derived("rows", rows, "Layers in the order of forward, then the rest.");
  v("input", profile.input, "How fast training data is read.");
}

}  // namespace trainer::commands
