#include "commands/sweep/launchers.h"

#include <cctype>

#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"

namespace trainer::commands {
namespace {

std::string command_line(const results::SweepPlan& plan, const results::Point& point) {
  std::string line;
  for (const std::string& word : make_arguments(plan, point)) line += " " + shell_word(word);
  return line;
}

// The value of an option on a line "#SBATCH --option=value", as sbatch reads it. Throws ConfigError
// for a text with a line break, which would end the line.
std::string sbatch_value(const std::string& text) {
  if (text.find_first_of("\n\r") != std::string::npos) {
    throw ConfigError({}, "--launcher slurm: '", printable(text),
                      "' has a line break, which a line of sbatch cannot hold; choose "
                      "another name or folder (--dir)");
  }
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "\"";
}

// The path of a file that sbatch writes, in which '%' begins a pattern.
std::string sbatch_path(const Path& path) {
  std::string text;
  for (const char letter : path.string()) text += letter == '%' ? "%%" : std::string(1, letter);
  return text;
}

// Returns a name that Kubernetes accepts: at most 63 lower-case letters, digits and '-', with a
// number by which names that are cut alike differ.
std::string job_name(const results::SweepPlan& plan, std::size_t index) {
  std::string name;
  for (const char letter : plan.name + "-" + plan.points[index].name) {
    const auto byte = static_cast<unsigned char>(letter);
    name += std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  constexpr std::size_t kMaxNameLength = 50;
  name = concat(name.substr(0, kMaxNameLength), "-", index);
  return std::isalpha(static_cast<unsigned char>(name.front())) != 0 ? name : "t" + name;
}

std::int64_t count_gpus(const results::SweepPlan& plan, const results::Point& point) {
  const config::Parallel parallel = results::load_point_config(plan, point).parallel;
  return parallel.device == DeviceKind::kCpu ? 0 : parallel.replicas;
}

}  // namespace

std::string slurm_script(const results::SweepPlan& plan, const std::string& program) {
  std::string script = concat(
      "#!/usr/bin/env bash\n"
      "# A task of this array trains a point of the sweep; hand it to sbatch.\n"
      "#SBATCH --job-name=",
      sbatch_value(plan.name + "_sweep"), "\n#SBATCH --array=0-", plan.points.size() - 1,
      "\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --signal=TERM@120\n#SBATCH --requeue\n"
      "#SBATCH --open-mode=append\n#SBATCH --output=",
      sbatch_value(sbatch_path(plan.folder) + "/slurm-%a.out"), "\ntrainer=${TRAINER:-",
      shell_word(program), "}\ncase $SLURM_ARRAY_TASK_ID in\n");
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    script += concat(i, ")\n");
    for (const auto& [name, value] : plan.points[i].environment) {
      script += concat("  export ", name, "=", shell_word(value), "\n");
    }
    const std::string folder = shell_word((plan.folder / plan.points[i].name).string());
    script += concat("  mkdir -p ", folder, "\n  \"$trainer\"", command_line(plan, plan.points[i]),
                     " 2> ", folder, "/errors.log ;;\n");
  }
  return script +
         "*) echo \"no point has the number $SLURM_ARRAY_TASK_ID\" >&2; exit 2 ;;\nesac\ncode=$?\n"
         "# Saved ahead of the time limit: another task goes on.\n"
         "if ((code == 75)); then\n"
         "  scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"\nfi\nexit \"$code\"\n";
}

std::string kubernetes_jobs(const results::SweepPlan& plan, const std::string& image) {
  std::string text;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    const results::Point& point = plan.points[i];
    std::string words = "trainer", environment;
    for (const std::string& word : make_arguments(plan, point))
      words += ", " + container_word(word);
    for (const auto& [name, value] : point.environment) {
      environment +=
          concat("            - {name: ", name, ", value: ", container_word(value), "}\n");
    }
    if (!environment.empty()) environment = "          env:\n" + environment;
    const std::int64_t gpus = count_gpus(plan, point);
    const std::string limits =
        gpus == 0 ? ""
                  : concat("          resources: {limits: {nvidia.com/gpu: \"", gpus, "\"}}\n");
    text += concat("---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ", job_name(plan, i),
                   "\n  labels: {app: trainer}\nspec:\n  backoffLimit: 3\n  template:\n    spec:\n"
                   "      restartPolicy: OnFailure\n      containers:\n        - name: trainer\n"
                   "          image: ",
                   yaml_string(image), "\n          command: [", words, "]\n", environment, limits,
                   "          workingDir: /job\n"
                   "          volumeMounts: [{name: job, mountPath: /job}]\n"
                   "      volumes:\n        - name: job\n"
                   "          persistentVolumeClaim: {claimName: trainer-job}\n");
  }
  return text;
}

}  // namespace trainer::commands
