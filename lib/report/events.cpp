#include "report/events.h"

#include <nlohmann/json.hpp>

#include "base/formats/json.h"

namespace trainer::report {
namespace {

using Json = nlohmann::ordered_json;

Json make_place(const Diagnostic& diagnostic) {
  Json place = Json::object();
  if (!diagnostic.loc.file.empty()) place["file"] = diagnostic.loc.file;
  if (diagnostic.loc.line > 0) {
    place["line"] = diagnostic.loc.line;
    place["column"] = diagnostic.loc.column;
  }
  place["message"] = diagnostic.message;
  return place;
}

}  // namespace

void print_validated_json(const std::string& config, const Error* error, std::ostream& out) {
  Json errors = Json::array();
  if (const auto* located = dynamic_cast<const ConfigError*>(error)) {
    for (const Diagnostic& each : located->diagnostics()) errors.push_back(make_place(each));
  } else if (error != nullptr) {
    errors.push_back({{"message", error->what()}});
  }
  write_event(
      out,
      {{"event", "validated"}, {"config", config}, {"ok", error == nullptr}, {"errors", errors}});
}

void print_exported_json(const inference::OpenedModel& opened, const std::string& format,
                         const std::string& output, std::ostream& out) {
  write_event(out, {{"event", "exported"},
                    {"output", output},
                    {"format", format},
                    {"run", opened.path},
                    {"step", opened.step}});
}

void print_model_json(const measure::MeasuredKeys& keys, std::ostream& out) {
  Json event{{"event", "model"}};
  for (const auto& [key, value] : keys) event[key] = value;
  write_event(out, event);
}

void print_devices_json(const std::string& cpu, const backend::GpuList& list, std::ostream& out) {
  Json gpus = Json::array();
  for (const backend::Gpu& gpu : list.gpus) {
    gpus.push_back({{"index", gpus.size()},
                    {"name", gpu.name},
                    {"compute_capability", concat(gpu.major, ".", gpu.minor)},
                    {"multiprocessors", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes}});
  }
  Json event{{"event", "devices"}, {"cpu", cpu}, {"gpus", gpus}, {"no_gpu", nullptr}};
  if (gpus.empty()) event["no_gpu"] = list.reason;
  write_event(out, event);
}

void print_devices(const std::string& cpu, const backend::GpuList& list, std::ostream& out) {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  out << cpu << '\n';
  for (std::size_t i = 0; i < list.gpus.size(); ++i) {
    const backend::Gpu& gpu = list.gpus[i];
    out << "GPU " << i << ": " << gpu.name << ", compute capability " << gpu.major << '.'
        << gpu.minor << ", " << gpu.multiprocessors << " multiprocessors, "
        << (gpu.memory_bytes + kGibibyte / 2) / kGibibyte << " GiB\n";
  }
  if (list.gpus.empty()) out << "no GPU: " << list.reason << '\n';
}

}  // namespace trainer::report
