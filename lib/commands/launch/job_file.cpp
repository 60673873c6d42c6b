#include "commands/launch/job_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/process/shell.h"
#include "commands/launch/job_templates.inl"

namespace trainer::commands {
namespace {

// A file of scripts/cluster in which values are replaced.
class Template {
 public:
  explicit Template(std::string text) : text_(std::move(text)) {}

  // Replaces every `before`. A file without one is an internal error, which the tests find.
  Template& replace(const std::string& before, const std::string& after) {
    std::size_t at = text_.find(before);
    if (at == std::string::npos) {
      throw DeviceError(concat("internal error: no '", before, "' in the template of a job file"));
    }
    for (; at != std::string::npos; at = text_.find(before, at + after.size())) {
      text_.replace(at, before.size(), after);
    }
    return *this;
  }
  // Replaces what is from `begin` to the end of `end`.
  Template& replace_between(const std::string& begin, const std::string& end,
                            const std::string& after) {
    const std::size_t first = text_.find(begin), last = text_.find(end, first);
    if (first == std::string::npos || last == std::string::npos) {
      throw DeviceError(concat("internal error: no '", begin, "' in the template of a job file"));
    }
    text_.replace(first, last + end.size() - first, after);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Kubernetes and Slurm name pods, services and files after a job.
void check_name(const std::string& name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kMaxNameLength = 50;
  if (name.size() <= kMaxNameLength && !name.empty() &&
      kLetters.find(name.front()) != std::string_view::npos && name.back() != '-' &&
      name.find_first_not_of(concat(kLetters, "0123456789-")) == std::string::npos) {
    return;
  }
  throw ConfigError(
      {}, concat("--name: expected at most ", kMaxNameLength,
                 " lower-case letters, digits and '-', a letter first, found '", name, "'"));
}

std::string make_kubernetes_file(const JobFileOptions& options, int ranks,
                                 std::vector<std::string> command) {
  command.insert(command.begin(), "trainer");
  command.insert(command.end(),
                 {"--hosts", concat(options.name, "-{0..", ranks - 1, "}.", options.name)});
  command.insert(command.end(), {"--set", concat("parallel.require_cluster=", ranks)});
  std::string words;
  for (const std::string& word : command) {
    words += concat(words.empty() ? "" : ", ", container_word(word));
  }
  const std::string queue =
      options.queue.empty()
          ? ""
          : concat("  labels: {kueue.x-k8s.io/queue-name: ", yaml_string(options.queue), "}\n");
  Template file(kIndexedJob);
  file.replace_between("# A job", "--hosts.\n", "")
      .replace_between("          command: [", "]\n", concat("          command: [", words, "]\n"))
      .replace_between("  labels: {kueue", "}\n", queue)
      .replace_between("            # kubectl create secret", "\n",
                       concat("            # kubectl create secret generic ", options.secret,
                              " --from-literal=secret=$(openssl rand -hex 32)\n"))
      .replace("{name: trainer-job, key: secret}",
               concat("{name: ", yaml_string(options.secret), ", key: secret}"))
      .replace("claimName: trainer-job", concat("claimName: ", yaml_string(options.claim)))
      .replace("registry.example/trainer:latest", yaml_string(options.image))
      .replace("workingDir: /job", concat("workingDir: ", yaml_string(options.folder)))
      .replace("mountPath: /job", concat("mountPath: ", yaml_string(options.folder)))
      .replace("completions: 4", concat("completions: ", ranks))
      .replace("parallelism: 4", concat("parallelism: ", ranks))
      .replace("name: digits", concat("name: ", options.name))
      .replace("subdomain: digits", concat("subdomain: ", options.name))
      .replace("digits-0.digits", concat(options.name, "-0.", options.name));
  return file.text();
}

std::string make_slurm_file(const JobFileOptions& options, int ranks,
                            const std::vector<std::string>& command) {
  std::string words;
  for (const std::string& word : command) words += " " + shell_word(word);
  Template file(kSlurmJob);
  file.replace_between("# One rank", "[option ...]\n#\n", "")
      .replace("--job-name=trainer", concat("--job-name=", options.name))
      .replace("--nodes=2", concat("--nodes=", ranks))
      .replace(" train \"$@\" --resume", words)
      .replace("${SLURM_NTASKS:-$SLURM_JOB_NUM_NODES}", std::to_string(ranks));
  return file.text();
}

}  // namespace

std::string make_job_file(const JobFileOptions& options, int ranks,
                          const std::vector<std::string>& command) {
  if (command.front() != "train") {
    throw ConfigError(
        {}, concat("--print-job: expected train behind --, found '", command.front(), "'"));
  }
  check_name(options.name);
  std::vector<std::string> words = command;
  if (std::ranges::find(words, "--resume") == words.end()) words.emplace_back("--resume");
  return options.scheduler == "slurm" ? make_slurm_file(options, ranks, words)
                                      : make_kubernetes_file(options, ranks, words);
}

}  // namespace trainer::commands
