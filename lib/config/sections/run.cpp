#include "config/sections/run.h"

#include <charconv>

#include "config/field.h"

namespace trainer::config {

void fields(FieldVisitor& v, Run& s) {
  v.located(s.loc);
  v("dir", s.dir, "Folder of the run; runs/<name> when left out.");
  v("checkpoint_every", s.checkpoint_every, "Steps, epochs or seconds between two checkpoints.");
  v("keep", s.keep, "Number of checkpoints that are kept, the newest ones.", at_least(1));
  v("best", s.best, "Metric whose best checkpoint is kept too, \"\" for none.");
  v("log_every", s.log_every, "Steps, epochs or seconds between two lines of the log.");
  v("summary_every", s.summary_every,
    "Steps, epochs or seconds between points of training in the metrics files and TensorBoard; "
    "ends of epochs and evaluations have one, too.");
  v("evaluate_every", s.evaluate_every,
    "Steps, epochs or seconds between two evaluations on the validation split, or on the test "
    "split if there is none.");
  v("tensorboard", s.tensorboard, "Whether TensorBoard files are written.");
  v("mlflow", s.mlflow,
    "URL of an MLflow server that receives the config, metrics and end of the run, \"\" for none. "
    "The experiment has the name of the config, or that in MLFLOW_EXPERIMENT_NAME.");
  v("prometheus", s.prometheus,
    "Metrics for Prometheus: FILE.prom for the textfile collector, or \":PORT\" to serve /metrics "
    "and /healthz on the loopback device (\"0.0.0.0:PORT\": on all), \"\" for none.");
  v("ledger", s.ledger, "Whether ledger.csv is written: a row per step, for trainer diff.");
  v("price_per_hour", s.price_per_hour,
    "Price of an hour of one replica's device, in any currency, for the costs in reports and "
    "sweeps.",
    at_least(0));
}

std::optional<PrometheusTarget> parse_prometheus(const std::string& text) {
  constexpr int kMaxPort = 65535;
  if (text.size() > 5 && text.ends_with(".prom")) return PrometheusTarget{text, "", 0};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  PrometheusTarget target{"", text.substr(0, colon), 0};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, target.port);
  if (error != std::errc() || rest != end || target.port < 1 || target.port > kMaxPort) {
    return std::nullopt;
  }
  if (target.host.starts_with('[') && target.host.ends_with(']')) {
    target.host = target.host.substr(1, target.host.size() - 2);
  }
  if (target.host.find_first_of("/[] ") != std::string::npos) return std::nullopt;
  if (target.host.empty()) target.host = "127.0.0.1";
  return target;
}

}  // namespace trainer::config
