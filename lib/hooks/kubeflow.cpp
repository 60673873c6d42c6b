#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/process/environment.h"
#include "base/text.h"
#include "hooks/hooks.h"
#include "hooks/metric_window.h"
#include "http/client.h"

namespace trainer::hooks {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr char kUrl[] = "KUBEFLOW_TRAINER_SERVER_URL";
constexpr char kCertificate[] = "KUBEFLOW_TRAINER_SERVER_CA_CERT";
constexpr char kToken[] = "KUBEFLOW_TRAINER_SERVER_TOKEN";
constexpr std::chrono::seconds kMaxPause{60}, kMaxDuration{20};

// Posts the newest state from a thread of its own; older states are dropped. The calls of Hook
// belong to one other thread, and none but on_finish() waits for the server.
class KubeflowHook final : public Hook {
 public:
  explicit KubeflowHook(KubeflowOptions options) : options_(std::move(options)) {}

  ~KubeflowHook() override { end_thread(); }

  std::string name() const override { return "kubeflow"; }

  void on_start(const RunInfo& info) override {
    total_steps_ = info.total_steps;
    first_step_ = step_ = info.first_step;
    has_news_ = true;
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }

  Request on_step(const StepRecord& p) override {
    std::string failure;
    {
      const std::lock_guard lock(mutex_);
      window_.add(p);
      step_ = p.step;
      elapsed_ = p.elapsed;
      has_news_ = true;
      failure = std::exchange(failure_, "");
      changed_.notify_all();
    }
    warn(failure);
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    const std::lock_guard lock(mutex_);
    for (const auto& [metric, value] : engine::named_metrics(e.metrics)) {
      metrics_[concat(to_string(e.split), '/', metric)] = value;
    }
    has_news_ = true;
    changed_.notify_all();
    return Request::kContinue;
  }

  void on_finish(const Finish& finish) override {
    std::unique_lock lock(mutex_);
    is_whole_ = finish.reason != FinishReason::kInterrupted;
    has_news_ = is_over_ = true;
    changed_.notify_all();
    if (thread_.joinable()) {
      changed_.wait_for(lock, options_.period + options_.patience, [&] { return is_done_; });
    }
    lock.unlock();
    end_thread();
    warn(failure_);
  }

 private:
  void end_thread() {
    is_cancelled_ = true;
    {
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  void run() {
    std::unique_lock lock(mutex_);
    Clock::time_point next = Clock::now();
    Clock::duration pause = options_.period;
    while (true) {
      changed_.wait_until(lock, next, [&] { return is_cancelled_ || (is_over_ && !has_news_); });
      changed_.wait(lock, [&] { return has_news_ || is_over_ || is_cancelled_; });
      if (is_cancelled_ || !has_news_) break;
      has_news_ = false;
      const std::string body = make_body();
      lock.unlock();
      const std::string failure = post(body);
      lock.lock();
      pause = options_.period;
      if (!failure.empty()) {
        has_news_ = true;
        pause = is_over_ ? pause : std::min<Clock::duration>(2 * last_pause_, kMaxPause);
        if (!has_failed_) failure_ = failure;
        has_failed_ = true;
      }
      last_pause_ = pause;
      next = Clock::now() + pause;
    }
    is_done_ = true;
    changed_.notify_all();
  }

  // Returns the status of the API trainer.kubeflow.org/v1alpha1 (KEP-2779).
  std::string make_body() {
    if (!window_.empty()) {
      metrics_["train/loss"] = window_.loss();
      metrics_["images_per_second"] = window_.images_per_second();
      window_ = {};
    }
    Json metrics = Json::array();
    for (const auto& [name, value] : metrics_) {
      metrics.push_back({{"name", name}, {"value", concat(value)}});
    }
    Json status;
    const bool is_whole = is_over_ && is_whole_;
    const std::int64_t percent = total_steps_ > 0 ? 100 * step_ / total_steps_ : 0;
    status["progressPercentage"] = is_whole ? 100 : std::clamp<std::int64_t>(percent, 0, 99);
    if (step_ > first_step_) {
      const double left = static_cast<double>(is_whole ? 0 : total_steps_ - step_);
      const double seconds = elapsed_ / static_cast<double>(step_ - first_step_) * left;
      status["estimatedRemainingSeconds"] = static_cast<std::int64_t>(std::max(seconds, 0.0));
    }
    status["metrics"] = std::move(metrics);
    status["lastUpdatedTime"] = utc_time(std::chrono::system_clock::now());
    return Json{{"trainerStatus", std::move(status)}}.dump();
  }

  // Returns why the server did not take the status; "" if it did.
  std::string post(const std::string& body) {
    try {
      if (!client_ || Clock::now() - token_time_ >= options_.token_age) open_client();
      http::Request request;
      request.method = "POST";
      request.url = read_variable(options_.environment, kUrl);
      request.headers = {"Content-Type: application/json"};
      request.body = body;
      request.max_duration = kMaxDuration;
      request.proceed = [this](std::int64_t) { return !is_cancelled_; };
      const http::Response response = client_->send(request);
      if (response.error.empty() && response.status / 100 == 2) return "";
      client_.reset();  // The token may have been replaced.
      return response.error.empty() ? concat("the server answers with status ", response.status)
                                    : response.error;
    } catch (const std::exception& error) {
      client_.reset();
      return error.what();
    }
  }

  void open_client() {
    http::ClientOptions options;
    options.certificates = read_variable(options_.environment, kCertificate);
    const std::string token = read_text_file(read_variable(options_.environment, kToken));
    options.credentials.token = token.substr(0, token.find_last_not_of(" \r\n") + 1);
    client_.emplace(std::move(options));
    token_time_ = Clock::now();
  }

  void warn(const std::string& text) const {
    if (text.empty() || !options_.warn) return;
    options_.warn(concat("Kubeflow does not get the progress of the run: ", printable(text),
                         "; the run goes on without waiting for the server"));
  }

  const KubeflowOptions options_;
  std::optional<http::Client> client_;  // used by the thread, as are the next two
  Clock::time_point token_time_{};
  Clock::duration last_pause_ = options_.period;

  std::atomic<bool> is_cancelled_{false};
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::int64_t total_steps_ = 0, first_step_ = 0, step_ = 0;
  double elapsed_ = 0;
  MetricWindow window_;  // the steps since the last status
  std::map<std::string, double> metrics_;
  bool has_news_ = false, is_over_ = false, is_whole_ = false, is_done_ = false;
  bool has_failed_ = false;
  std::string failure_;  // the first one, until it is reported

  std::thread thread_;
};

}  // namespace

std::unique_ptr<Hook> make_kubeflow_hook(KubeflowOptions options) {
  for (const char* name : {kUrl, kCertificate, kToken}) {
    if (read_variable(options.environment, name).empty()) return nullptr;
  }
  return std::make_unique<KubeflowHook>(std::move(options));
}

}  // namespace trainer::hooks
