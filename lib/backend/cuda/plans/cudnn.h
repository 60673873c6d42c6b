// cuDNN's backend descriptors as owners, with errors as exceptions.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::backend::cuda {

// Throws DeviceError "<what>: <cuDNN's status>: <cuDNN's reason>" unless the call succeeded.
void check(cudnnStatus_t status, std::string_view what);

std::string cudnn_version();  // the version of the library that is loaded: "cuDNN 9.19.0"

struct DestroyCudnn {
  void operator()(cudnnHandle_t handle) const noexcept;
};
using CudnnHandle = std::unique_ptr<cudnnContext, DestroyCudnn>;

// Return cuDNN's name of the type of an attribute.
constexpr auto attribute_type(std::int64_t) { return CUDNN_TYPE_INT64; }
constexpr auto attribute_type(bool) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto attribute_type(float) { return CUDNN_TYPE_FLOAT; }
constexpr auto attribute_type(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto attribute_type(cudnnConvolutionMode_t) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr auto attribute_type(cudnnPointwiseMode_t) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr auto attribute_type(cudnnNanPropagation_t) { return CUDNN_TYPE_NAN_PROPOGATION; }
constexpr auto attribute_type(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
constexpr auto attribute_type(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
constexpr auto attribute_type(void*) { return CUDNN_TYPE_VOID_PTR; }

// One descriptor: attributes are set, then it is finalized, then others may refer to it. A
// descriptor that refers to others does not own them. All functions throw DeviceError.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set_raw(name, attribute_type(value), 1, &value);
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return set_raw(name, attribute_type(T{}), values.size(), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::string_view text);
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<const Descriptor*>& values);
  Descriptor& finalize();

  std::int64_t get_int(cudnnBackendAttributeName_t name) const;
  std::string get_text(cudnnBackendAttributeName_t name) const;
  std::vector<cudnnBackendNumericalNote_t> get_numerical_notes() const;  // call it on an engine
  std::vector<cudnnBackendBehaviorNote_t> get_behavior_notes() const;    // call it on an engine
  // The descriptors that the library makes for an attribute.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                          cudnnBackendDescriptorType_t type) const;

  cudnnBackendDescriptor_t get() const { return raw_.get(); }

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t raw) const noexcept;
  };
  Descriptor& set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      std::size_t count, const void* values);
  template <class T>
  std::vector<T> get_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;

  cudnnBackendDescriptorType_t type_;
  std::unique_ptr<void, Destroy> raw_;
};

// The device that plans are made for: the current one, by a handle, or one that need not be here,
// by cuDNN's description of it in JSON, for which plans cannot run.
class CudnnDevice {
 public:
  // An empty text means the current device.
  explicit CudnnDevice(std::string_view properties_json);

  // Name the device in a descriptor.
  void set_on_graph(Descriptor& graph) const;
  void set_on_heuristics(Descriptor& heuristics) const;
  void set_on_plan(Descriptor& plan) const;

  // Returns null for a device that is not present.
  cudnnHandle_t handle() const { return handle_.get(); }
  // cuDNN's description of the device, in JSON.
  const std::string& properties() const { return json_; }
  // The properties without the ids of this device. Plans found on one GPU serve all GPUs of its
  // kind: ranks that chose different engines would not compute the same bits.
  std::string kind() const;

 private:
  CudnnHandle handle_;
  Descriptor properties_;
  std::string json_;
};

}  // namespace trainer::backend::cuda
