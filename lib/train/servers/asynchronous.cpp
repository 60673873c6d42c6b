#include "train/servers/asynchronous.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "data/not_finite.h"
#include "server/server.h"
#include "train/schedule/stages.h"
#include "train/servers/gradient_stream.h"
#include "train/signals.h"

namespace trainer::train {
namespace {

using hooks::FinishReason;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kPollInterval{50};  // between two checks for a signal

// Returns how a job that is over for this task has ended. If a server has closed the connection
// without an outcome, waits up to `patience` for the outcome, which arrives soon after.
FinishReason wait_for_end(ParameterServers& servers, std::int64_t total_steps,
                          milliseconds patience) {
  const auto limit = SteadyClock::now() + patience;
  while (!servers.client().outcome() && servers.step() < total_steps &&
         SteadyClock::now() < limit) {
    std::this_thread::sleep_for(kPollInterval);
  }
  servers.client().check();
  const auto outcome = servers.client().outcome();
  const bool interrupted = outcome && outcome->kind == server::Outcome::Kind::kInterrupted;
  return interrupted ? FinishReason::kInterrupted : FinishReason::kDone;
}

}  // namespace

FinishReason work(const config::Config& config, const data::Datasets& data, engine::Engine& engine,
                  ParameterServers& servers) {
  const SignalWatch signals;
  const TrainingPlan plan = plan_steps(config, data.train->size());
  try {
    servers.join(engine);
    GradientStream stream(config, *data.train, engine, servers, servers.step());
    while (SignalWatch::received() == nullptr) {
      const GradientStream::Step step = stream.next();
      if (step.not_finite) {
        const std::string bad = data::find_not_finite(config.data, *data.train);
        if (!bad.empty()) throw Error(kExitData, bad);
        throw CheckError("the loss is not finite after step ", servers.step(),
                         step.not_finite->empty() ? "" : ": first seen in ", *step.not_finite, ", ",
                         step.blame, ". The gradient was not given to the servers");
      }
      if (step.pushed.result == server::Pushed::Result::kOver) {
        return wait_for_end(servers, plan.total_steps, exchange_timeout(config));
      }
    }
    return FinishReason::kInterrupted;
  } catch (const PeerError& error) {
    throw PeerError(error.what(), ". This worker was at step ", servers.step(),
                    ", the chief's last checkpoint is of step ", servers.saved(),
                    "; start the job again with --resume");
  }
}

FinishReason serve(const config::Config& config, const cluster::Identity& who,
                   const std::function<void(const std::string&)>& say) {
  const SignalWatch signals;
  server::ServerOptions options;
  options.timeout = exchange_timeout(config);
  options.agreement = agreement_facts(who, config);
  options.max_staleness = config.parallel.max_staleness;
  options.learning_rate = [&](std::int64_t samples) {
    return staged_learning_rate(config, plan_steps(config, samples));
  };
  options.say = say;
  server::Server server(who, options);
  say(concat("ps:", who.index, " listens at ", to_string(who.cluster.ps[who.index])));
  std::optional<server::Outcome> outcome;
  std::optional<SteadyClock::time_point> limit;  // time until which the chief may save
  const server::Outcome interrupted{server::Outcome::Kind::kInterrupted, ""};
  while (!(outcome = server.wait(kPollInterval))) {
    if (SignalWatch::received() == nullptr) continue;
    if (!server.request_stop()) outcome = interrupted;
    if (!limit) limit = SteadyClock::now() + options.timeout;
    if (SteadyClock::now() > *limit) outcome = interrupted;
    if (outcome) break;
  }
  server.close(*outcome);
  if (outcome->kind == server::Outcome::Kind::kFailed) throw PeerError(outcome->message);
  return outcome->kind == server::Outcome::Kind::kInterrupted ? FinishReason::kInterrupted
                                                              : FinishReason::kDone;
}

}  // namespace trainer::train
