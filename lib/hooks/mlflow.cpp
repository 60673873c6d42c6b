#include <set>
#include <system_error>

#include "base/error.h"
#include "config/config.h"
#include "hooks/hooks.h"
#include "hooks/mlflow/sender.h"
#include "hooks/summary_window.h"
#include "http/certificates.h"
#include "results/train_events.h"
#include "results/write_json.h"

namespace trainer::hooks {
namespace {

constexpr std::uintmax_t kMaxReportBytes = 20 << 20;

// Reads the variables that MLflow's own client reads, with the same precedence.
http::ClientOptions make_client_options(const Environment& environment) {
  http::ClientOptions options;
  http::Credentials& credentials = options.credentials;
  credentials.user = read_variable(environment, "MLFLOW_TRACKING_USERNAME");
  credentials.password = read_variable(environment, "MLFLOW_TRACKING_PASSWORD");
  if (credentials.user.empty() || credentials.password.empty()) credentials = {};
  credentials.token = read_variable(environment, "MLFLOW_TRACKING_TOKEN");
  options.certificates = read_variable(environment, "MLFLOW_TRACKING_SERVER_CERT_PATH");
  if (options.certificates.empty()) options.certificates = http::find_certificates(environment);
  return options;
}

class MlflowHook final : public Hook {
 public:
  MlflowHook(const config::Config& config, MlflowOptions options)
      : options_(std::move(options)), window_(config.run.summary_every) {
    run_.url = config.run.mlflow;
    run_.experiment = read_variable(options_.environment, "MLFLOW_EXPERIMENT_NAME");
    if (run_.experiment.empty()) run_.experiment = config.name;
    run_.params = mlflow::to_params(config::leaves(config));
    run_.artifacts = {{"config.yaml", config::to_yaml(config)}};
  }

  // The training has failed if on_finish() was not called.
  ~MlflowHook() override {
    try {
      if (sender_) close({"FAILED", {}});
    } catch (const std::exception&) {
    }
  }

  std::string name() const override { return "mlflow"; }
  std::string save() const override { return window_.save(); }
  void restore(const std::string& saved) override { window_.restore(saved); }

  void on_start(const RunInfo& info) override {
    dir_ = info.dir;
    window_.start(info);
    start_sender();
  }

  Request on_step(const StepRecord& p) override {
    if (window_.add(p)) add_window();
    report_failure();
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    if (!window_.empty()) add_window();
    // Like the other files of a run, the server gets one evaluation per step.
    if (!evaluated_.insert({to_string(e.split), e.step}).second) return Request::kContinue;
    mlflow::Row::Values values;
    for (const auto& [name, value] : engine::named_metrics(e.metrics)) {
      values.emplace_back(concat(to_string(e.split), '/', name), value);
    }
    add(e.step, std::move(values));
    report_failure();
    return Request::kContinue;
  }

  void on_finish(const Finish& finish) override {
    if (!sender_) return;
    const bool is_interrupted = finish.reason == FinishReason::kInterrupted;
    mlflow::RunEnd end{is_interrupted ? "KILLED" : "FINISHED", {}};
    end.artifacts.push_back({"final_metrics.json", results::to_line(results::TrackedEnd{finish})});
    add_report(end);
    close(std::move(end));
  }

 private:
  void start_sender() {
    mlflow::RunDescription run = run_;
    run.name = dir_.filename().empty() ? dir_.parent_path().filename() : dir_.filename();
    run.tags = {{"mlflow.source.name", "trainer"}, {"mlflow.source.type", "LOCAL"}};
    for (const auto& [name, value] : options_.tags) {
      run.tags.emplace_back(name, mlflow::cut_text(value, mlflow::kMaxTagBytes));
    }
    run.tags.emplace_back("trainer.run", mlflow::cut_text(dir_.string(), mlflow::kMaxTagBytes));
    run.id_file = dir_ / "mlflow.json";
    mlflow::Timing timing;
    timing.between_requests = timing.first_pause = options_.pause;
    timing.patience = options_.patience;
    try {
      sender_.emplace(std::move(run), make_client_options(options_.environment), timing);
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }

  void add_window() {
    const StepRecord& last = window_.steps().last();
    mlflow::Row::Values values{{"epoch", last.epoch}};
    for (const auto& [name, value] : window_.list_metrics()) {
      const bool is_result = name == "loss" || name == "accuracy";
      values.emplace_back(is_result ? concat(to_string(Split::kTrain), '/', name) : name, value);
    }
    // MLflow shows what begins with system/ on a page of its own, so that its page of the model's
    // metrics begins with losses and accuracies.
    for (const auto& [name, value] : window_.list_system_metrics()) {
      values.emplace_back("system/" + name, value);
    }
    add(last.step, std::move(values));
    window_.clear();
  }

  void add(std::int64_t step, mlflow::Row::Values values) {
    ++rows_;
    if (sender_) sender_->add(step, std::move(values));
  }

  // `trainer report` may have been called between two sessions of the run.
  void add_report(mlflow::RunEnd& end) const {
    const Path report = dir_ / "report.html";
    std::error_code error;
    if (!std::filesystem::is_regular_file(report, error)) return;
    if (std::filesystem::file_size(report, error) > kMaxReportBytes || error) return;
    try {
      end.artifacts.push_back({"report.html", read_text_file(report)});
    } catch (const DataError& failed) {
      warn(failed.what());
    }
  }

  void close(mlflow::RunEnd end) {
    sender_->close(std::move(end));
    report_failure();
    const std::int64_t missing = sender_->rows_not_sent();
    if (missing > 0 || !sender_->has_sent_status()) {
      warn(concat(missing, " of ", rows_, " rows were not sent",
                  sender_->has_sent_status() ? "" : ", nor how the run ended"));
    }
    sender_.reset();
  }

  void report_failure() {
    if (!sender_) return;
    const std::string failure = sender_->take_failure();
    if (!failure.empty()) warn(concat(failure, "; the run goes on without waiting for the server"));
  }

  void warn(const std::string& text) const {
    if (options_.warn) options_.warn(concat("MLflow at ", run_.url, ": ", text));
  }

  MlflowOptions options_;
  mlflow::RunDescription run_;  // without what on_start() adds
  SummaryWindow window_;
  Path dir_;
  std::set<std::pair<std::string, std::int64_t>> evaluated_;  // splits and steps
  std::int64_t rows_ = 0;
  std::optional<mlflow::Sender> sender_;
};

}  // namespace

std::unique_ptr<Hook> make_mlflow_hook(const config::Config& config, MlflowOptions options) {
  return std::make_unique<MlflowHook>(config, std::move(options));
}

}  // namespace trainer::hooks
