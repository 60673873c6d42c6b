#include "backend/cuda/plans/cudnn.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trainer::backend::cuda {

void check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> reason{};
  cudnnGetLastErrorString(reason.data(), reason.size());
  throw DeviceError(
      concat(what, ": ", cudnnGetErrorString(status), reason[0] ? ": " : "", reason.data()));
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();
  return concat("cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

void DestroyCudnn::operator()(cudnnHandle_t handle) const noexcept { cudnnDestroy(handle); }

namespace {

// Makes a handle for the current device.
CudnnHandle create_cudnn() {
  cudnnHandle_t handle = nullptr;
  check(cudnnCreate(&handle), "cudnnCreate");
  return CudnnHandle(handle);
}

}  // namespace

void Descriptor::Destroy::operator()(cudnnBackendDescriptor_t raw) const noexcept {
  cudnnBackendDestroyDescriptor(raw);
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) : type_(type) {
  cudnnBackendDescriptor_t raw = nullptr;
  check(cudnnBackendCreateDescriptor(type, &raw),
        concat("cudnnBackendCreateDescriptor of type ", type));
  raw_.reset(raw);
}

Descriptor& Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                std::size_t count, const void* values) {
  check(cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(count), values),
        concat("cudnnBackendSetAttribute ", name, " of a descriptor of type ", type_));
  return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::string_view text) {
  return set_raw(name, CUDNN_TYPE_CHAR, text.size(), text.data());
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  return set(name, std::vector<const Descriptor*>{&value});
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name,
                            const std::vector<const Descriptor*>& values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Descriptor* value : values) raw.push_back(value->get());
  return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.size(), raw.data());
}

Descriptor& Descriptor::finalize() {
  check(cudnnBackendFinalize(get()),
        concat("cudnnBackendFinalize of a descriptor of type ", type_));
  return *this;
}

template <class T>
std::vector<T> Descriptor::get_all(cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type) const {
  const std::string what =
      concat("cudnnBackendGetAttribute ", name, " of a descriptor of type ", type_);
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(get(), name, type, 0, &count, nullptr), what);
  std::vector<T> values(count);
  if (values.empty()) return values;
  check(cudnnBackendGetAttribute(get(), name, type, count, &count, values.data()), what);
  values.resize(count);
  return values;
}

std::int64_t Descriptor::get_int(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  check(cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_INT64, 1, &count, &value),
        concat("cudnnBackendGetAttribute ", name, " of a descriptor of type ", type_));
  return value;
}

std::string Descriptor::get_text(cudnnBackendAttributeName_t name) const {
  const std::vector<char> text = get_all<char>(name, CUDNN_TYPE_CHAR);
  return {text.begin(), text.end()};
}

std::vector<cudnnBackendNumericalNote_t> Descriptor::get_numerical_notes() const {
  return get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                              CUDNN_TYPE_NUMERICAL_NOTE);
}

std::vector<cudnnBackendBehaviorNote_t> Descriptor::get_behavior_notes() const {
  return get_all<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                             CUDNN_TYPE_BEHAVIOR_NOTE);
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type) const {
  const std::string what =
      concat("cudnnBackendGetAttribute ", name, " of a descriptor of type ", type_);
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
        what);
  std::vector<Descriptor> result;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) raw.push_back(result.emplace_back(type).get());
  if (result.empty()) return result;
  check(cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count,
                                 raw.data()),
        what);
  while (std::ssize(result) > count) result.pop_back();
  return result;
}

CudnnDevice::CudnnDevice(std::string_view properties_json)
    : properties_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
  if (properties_json.empty()) {
    handle_ = create_cudnn();
    properties_.set(CUDNN_ATTR_DEVICEPROP_HANDLE, handle());
  } else {
    properties_.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, properties_json);
  }
  properties_.finalize();
  json_ = properties_json.empty() ? properties_.get_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
                                  : properties_json;
}

std::string CudnnDevice::kind() const {
  nlohmann::json fields = nlohmann::json::parse(json_, nullptr, false);
  if (!fields.is_object()) return json_;
  for (const char* id : {"cudaDeviceId", "pciDeviceId"}) fields.erase(id);
  return fields.dump();
}

void CudnnDevice::set_on_graph(Descriptor& graph) const {
  if (handle_) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle());
}

void CudnnDevice::set_on_heuristics(Descriptor& heuristics) const {
  if (!handle_) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties_);
}

void CudnnDevice::set_on_plan(Descriptor& plan) const {
  if (handle_) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle());
  } else {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties_);
  }
}

}  // namespace trainer::backend::cuda
