#include "results/step_times.h"

#include "base/error.h"
#include "results/rounded.h"

namespace trainer::results {

StepMeans make_step_means(const engine::StepTimes& times, const std::vector<std::string>& names) {
  constexpr int kDigits = 6;
  StepMeans means;
  means.steps = times.steps();
  for (std::size_t i = 0; i < times.ranks(); ++i) {
    RankMeans& rank = means.ranks.emplace_back();
    if (i < names.size()) rank.name = names[i];
    rank.times = times.mean_times(i);
    for (double& seconds : rank.times.seconds) seconds = rounded(seconds, kDigits);
  }
  means.straggler = times.straggler();
  if (means.straggler) {
    means.straggler->seconds = rounded(means.straggler->seconds, kDigits);
    means.straggler->others = rounded(means.straggler->others, kDigits);
  }
  return means;
}

void fields(FieldVisitor& v, RankMeans& rank) {
  v.when_present("name", rank.name, "The name of the rank.");
  for (const engine::StepPhase phase : engine::kAllStepPhases) {
    v(engine::column_name(phase).c_str(), rank.times[phase], kSeconds,
      concat("Mean time of a step in the phase ", spell(phase), ".").c_str());
  }
}

void fields(FieldVisitor& v, StepMeans& means) {
  v("steps", means.steps, kSteps, "Steps that were timed.");
  v("ranks", means.ranks, "The times of each rank.");
  v("straggler", means.straggler, "The rank whose own time is far above that of the others.");
}

void fields(FieldVisitor& v, engine::Straggler& straggler) {
  v("rank", straggler.rank, "The number of the rank, from 0.");
  v("own_seconds", straggler.seconds, kSeconds,
    "Its time in a step without sums over ranks and waiting for them.");
  v("others_seconds", straggler.others, kSeconds, "The median of the other ranks.");
  v("phase", straggler.phase, "The phase in which it loses most.");
}

void fields(FieldVisitor& v, engine::DeviceUse& use) {
  v("device", use.device, "The name of the device.");
  for (std::size_t i = 0; i < use.means.size(); ++i) {
    v.when_present(engine::kDeviceMetrics[i].name, use.means[i],
                   "Mean of the readings, in the unit of the name.");
  }
  v.when_present(engine::kDeviceEnergy, use.energy_joules, "J", "The energy that it used.");
}

void fields(FieldVisitor& v, FeatureRates& rates) {
  v.when_present("images_per_second_computing_features", rates.computing, kImagesPerSecond,
                 "Throughput of the steps that computed the features of frozen layers.");
  v.when_present("images_per_second_cached_features", rates.cached, kImagesPerSecond,
                 "Throughput of the steps that read cached features.");
}

}  // namespace trainer::results
