// Weights, checkpoints, configs and what runs leave in their folders.
#include <filesystem>

#include "base/files/files.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "cluster/identity.h"
#include "config/config.h"
#include "fuzz.h"
#include "results/run_files/run_files.h"

namespace trainer::fuzz {
namespace {

std::vector<std::string> split_into_lines(Bytes input) {
  std::vector<std::string> lines(1);
  for (const std::uint8_t byte : input) {
    if (byte == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += static_cast<char>(byte);
    }
  }
  return lines;
}

void check(const std::vector<checkpoint::Tensor>& tensors) {
  for (const checkpoint::Tensor& tensor : tensors) {
    if (tensor.shape.elements() != static_cast<std::int64_t>(tensor.values.size())) {
      found("a tensor of another shape than its values");
    }
  }
}

}  // namespace

void run_safetensors(Bytes input) {
  expect_errors_only(
      [&] { check(checkpoint::read_safetensors(as_file(input, ".safetensors")).tensors); });
}

void run_weights(Bytes input) {
  expect_errors_only([&] { check(checkpoint::read_weights(as_file(input, ".h5")).tensors); });
}

void run_checkpoint(Bytes input) {
  const std::filesystem::path file = as_file(input, "-run/checkpoints/step-00000007.safetensors");
  expect_errors_only([&] {
    std::vector<std::string> warnings;
    const auto run = file.parent_path().parent_path();
    check(checkpoint::load_last(run, warnings).tensors);
  });
  // The config of a file, also behind a checksum that a changed input does not have.
  expect_errors_only([&] {
    const checkpoint::TensorFile held = checkpoint::read_safetensors(file);
    const auto text = held.metadata.find("config");
    if (text == held.metadata.end()) return;
    const config::Config config = config::parse_recorded_config(text->second, "checkpoint").config;
    if (config.data.folders != config::FolderAccess::kReadOnly) {
      found("a recorded config that may write");
    }
  });
}

// What the program writes is read back to the same.
void run_yaml(Bytes input) {
  expect_errors_only([&] {
    const config::Environment variables{{"NAME", "value"}, {"N", "3"}};
    const config::Config config =
        config::parse_config(std::string(as_text(input)), "input.yaml", {}, variables).config;
    const std::string text = config::to_yaml(config);
    if (config::to_yaml(config::parse_config(text, "again.yaml", {}, {}).config) != text) {
      found("a config that changes when it is written and read");
    }
  });
}

void run_set(Bytes input) {
  static const std::string base =
      "model: {layers: [conv: {filters: 2, kernel_size: 3}, flatten, dense: 10]}\n"
      "data: {format: digits, path: digits}\noptimizer: {sgd: {learning_rate: 0.1}}\n";
  std::vector<config::Override> overrides;
  for (const std::string& line : split_into_lines(input)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    overrides.push_back({line.substr(0, equals), line.substr(equals + 1), "--set",
                         config::Override::Syntax::kYaml});
  }
  expect_errors_only([&] { config::parse_config(base, "base.yaml", overrides, {}); });
}

void run_environment(Bytes input) {
  config::Environment variables;
  cluster::IdentityFlags flags;
  for (const std::string& line : split_into_lines(input)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals);
    // No files: where they lie is the user's choice.
    if (name == "--master") flags.master = line.substr(equals + 1);
    variables[name] = line.substr(equals + 1);
  }
  expect_errors_only([&] {
    const cluster::Identity who = cluster::identify(flags, variables);
    cluster::cluster_text(who);
    for (int rank = 0; rank < std::min(who.size, 3); ++rank) cluster::rank_name(who, rank);
    cluster::accepts_unauthenticated_peers(who);
  });
}

// The first byte chooses the file that the rest is; the others are whole.
void run_metrics(Bytes input) {
  if (input.empty()) return;
  static const char* const kNames[]{"-folder/run.json", "-folder/metrics.csv",
                                    "-folder/ledger.csv"};
  static const char* const kWhole[]{
      R"({"name":"a","classes":["x","y"],"sessions":[{"seconds":2.5}]})",
      "step,epoch,split,loss,accuracy,learning_rate,images_per_second,wait_share,seconds\n",
      "step,samples,loss,learning_rate,sample_ids,seconds,wait_seconds\n"};
  std::filesystem::path folder;
  for (int i = 0; i < 3; ++i) {
    const std::string_view whole = kWhole[i];
    const Bytes bytes{reinterpret_cast<const std::uint8_t*>(whole.data()), whole.size()};
    folder = as_file(input[0] % 3 == i ? input.subspan(1) : bytes, kNames[i]);
  }
  folder = folder.parent_path();
  expect_errors_only([&] {
    results::is_finished(folder);
    const results::RunFiles run = results::read_run(folder);
    results::total_steps(run);
    results::images_per_second(run);
    results::seconds_to_accuracy(run, 0.5);
    results::scored_split(run);
  });
}

}  // namespace trainer::fuzz
