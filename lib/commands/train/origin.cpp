#include "commands/train/origin.h"

#include <gnu/libc-version.h>
#include <unistd.h>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/process/process.h"
#include "base/text.h"
#include "base/threads/topology.h"
#include "checkpoint/store.h"
#include "data/samples/splits.h"
#include "hooks/data_report.h"
#include "results/run_files/data_name.h"
#include "train/run_dir.h"

namespace trainer::commands {

std::vector<Notice> list_notices(const data::Datasets& data) {
  std::vector<Notice> notices{data.range_notice, data.relabel_notice};
  notices.insert(notices.end(), data.notices.begin(), data.notices.end());
  std::erase_if(notices, [](const Notice& notice) { return notice.text.empty(); });
  return notices;
}

namespace {

// Returns the revision of a file of Hugging Face's hub: that in its path in a cache, or that which
// `trainer weights` has written beside it; "" for others.
std::string find_revision(const Path& file) {
  const Path folder = file.parent_path(), written = folder / "revision";
  if (folder.parent_path().filename() == "snapshots") return folder.filename().string();
  return std::filesystem::is_regular_file(written) ? printable(read_text_file(written)) : "";
}

// Returns the file of weights of the config; nothing without one.
std::optional<results::RunWeights> describe_weights(const config::Model& model) {
  const bool of_backbone = model.backbone && model.weights.empty();
  const std::string& path = of_backbone ? model.backbone->weights : model.weights;
  if (path.empty()) return std::nullopt;
  const Path file = checkpoint::find_weight_file(path);
  return results::RunWeights{model.weights_name, file.string(), find_revision(file),
                             hash_file(file, Digest::Algorithm::kSha256)};
}

}  // namespace

results::RunRecord make_origin(const train::Job& job, const std::vector<model::LayerRow>& layers) {
  results::RunRecord origin;
  origin.program = job.build;
#ifdef __clang__
  origin.compiler = __VERSION__;
#else
  origin.compiler = concat("GCC ", __VERSION__);
#endif
  origin.libc = concat("glibc ", ::gnu_get_libc_version());
  origin.host = host_name();
  origin.device = job.engine.describe();
  origin.processor = processor_name();
  const Topology machine = read_topology();
  origin.cores = std::ssize(machine.processors);
  origin.machine = describe(machine);
  origin.model = model::describe_model(job.config.model, layers);
  if (job.start != train::Start::kResume) origin.weights = describe_weights(job.config.model);
  origin.data = job.data.train->fingerprint();
  const backend::MemoryReport memory = job.engine.memory();
  const auto replicas = static_cast<std::int64_t>(job.engine.count());
  origin.memory = {{"parameters and state", (memory.variables + memory.derived) / replicas},
                   {"gradients", memory.gradients / replicas},
                   {"activations", memory.activations / replicas},
                   {"staging and tables", (memory.staging + memory.tables) / replicas}};
  for (const Split split : kSplits) {
    const data::Dataset* const dataset = job.data.dataset(split).get();
    if (dataset == nullptr) continue;
    origin.splits.push_back(
        {to_string(split), {dataset->size(), data::class_counts(*dataset, job.data.num_classes)}});
  }
  origin.data_notices = list_notices(job.data);
  for (const std::string& warning : hooks::data_warnings(job.data)) {
    origin.data_notices.emplace_back(warning);
  }
  origin.base = train::find_base(job.run);
  origin.on_cpu = job.engine.backend().reads_host_memory();
  origin.price_per_hour = job.config.run.price_per_hour;
  return origin;
}

std::string describe_session(const train::Job& job) {
  std::vector<std::string> samples;
  for (const Split split : kSplits) {
    const data::Dataset* const dataset = job.data.dataset(split).get();
    if (dataset != nullptr)
      samples.push_back(concat(to_string(split), ' ', grouped(dataset->size())));
  }
  return concat(job.engine.describe(), "; ", job.build, " on ", host_name(), ", process ",
                ::getpid(), "; samples of ", results::find_data_name(config::leaves(job.config)),
                ": ", join(samples));
}

}  // namespace trainer::commands
