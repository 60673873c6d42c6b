// cuDNN's functions. Follows "cudnn_graph Library", section "API Functions" of the cuDNN backend
// API reference (docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html):
// cudnnBackendCreateDescriptor, SetAttribute, Finalize, GetAttribute, Execute, DestroyDescriptor;
// and the sections CUDNN_BACKEND_EXECUTION_PLAN_ and _VARIANT_PACK_DESCRIPTOR for what may be read
// from a finalized descriptor.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "cuda/fake_cudnn/descriptor.h"
#include "cuda/fake_cudnn/engines.h"
#include "cuda/fake_cudnn/execute.h"
#include "cuda/fake_cudnn/fake_cudnn.h"
#include "cuda/fake_runtime/tsan.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace fake {

std::size_t live_cublas_objects();

namespace {

std::mutex handles_mutex;
// Never destroyed: programs destroy descriptors in destructors of their own static objects.
auto& registry = *new std::map<void*, std::shared_ptr<Descriptor>>;
auto& handles = *new std::set<cudnnHandle_t>;
std::atomic<std::size_t> plans_chosen{0};
thread_local std::string last_error;

std::shared_ptr<Descriptor> find(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(handles_mutex);
  const auto found = registry.find(descriptor);
  if (found == registry.end()) refuse("no descriptor, or one that was destroyed");
  return found->second;
}

void check_handle(cudnnHandle_t handle) {
  const std::lock_guard lock(handles_mutex);
  if (handles.count(handle) == 0) refuse("no handle, or one that was destroyed");
}

// Calls a function and turns what it throws into a status.
template <class Call>
cudnnStatus_t guarded_cudnn(const Call& call) {
  try {
    call();
    return CUDNN_STATUS_SUCCESS;
  } catch (const Refusal& refusal) {
    last_error = refusal.what();
    return refusal.status;
  } catch (const std::exception& error) {
    last_error = error.what();
    return CUDNN_STATUS_INTERNAL_ERROR;
  }
}

// ---- Finalizing --------------------------------------------------------------------------------

class Open final : public OpenDescriptor {
 public:
  explicit Open(Descriptor& descriptor) : d_(descriptor) {}
  cudnnBackendDescriptorType_t type() const override { return d_.type; }
  std::vector<std::int64_t> integers(cudnnBackendAttributeName_t name) const override {
    return d_.all<std::int64_t>(name);
  }
  void set_integers(cudnnBackendAttributeName_t name,
                    const std::vector<std::int64_t>& values) override {
    d_.attributes[name].bytes.resize(values.size() * 8);
    std::memcpy(d_.attributes[name].bytes.data(), values.data(), values.size() * 8);
  }
  void set_enumerator(cudnnBackendAttributeName_t name, int value) override { set(name, value); }
  void set_float(cudnnBackendAttributeName_t name, float value) override { set(name, value); }

 private:
  template <class T>
  void set(cudnnBackendAttributeName_t name, T value) {
    d_.attributes[name].bytes.resize(sizeof value);
    std::memcpy(d_.attributes[name].bytes.data(), &value, sizeof value);
  }

  Descriptor& d_;
};

void finalize_plan(Descriptor& d) {
  const bool here = d.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  if (here == d.has(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)) {
    refuse("a plan has either a handle or device properties");
  }
  if (here) check_handle(d.one<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, nullptr));
  const auto text = d.all<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  if (!text.empty()) {
    d.attributes[CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG].references = {
        from_text({text.begin(), text.end()})};
  } else if (d.has(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)) {
    ++plans_chosen;
  } else {
    refuse("a plan has either an engine's configuration or a text");
  }
  check_fusion(find_engine_of_plan(d), *find_graph_of_plan(d));
}

void finalize_properties(const Descriptor& d) {
  const bool here = d.has(CUDNN_ATTR_DEVICEPROP_HANDLE);
  if (here == d.has(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)) {
    refuse("device properties come from either a handle or a text");
  }
  if (here) check_handle(d.one<cudnnHandle_t>(CUDNN_ATTR_DEVICEPROP_HANDLE, nullptr));
}

void finalize(Descriptor& d) {
  if (d.finalized) refuse("finalized twice");
  if (settings().before_finalize) {
    Open open(d);
    settings().before_finalize(open);
  }
  check_descriptor(d);
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) finalize_plan(d);
  if (d.type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) finalize_properties(d);
  d.finalized = true;
}

// ---- Reading -----------------------------------------------------------------------------------

// Where cudnnBackendGetAttribute puts its answer: as many values as fit, and their true number.
struct Answer {
  std::int64_t room;
  std::int64_t* count;
  void* to;

  template <class T>
  void give(const std::vector<T>& values) const {
    if (count != nullptr) *count = static_cast<std::int64_t>(values.size());
    if (to == nullptr) return;
    const std::size_t n = std::min(values.size(), static_cast<std::size_t>(room));
    if (n > 0) std::memcpy(to, values.data(), n * sizeof(T));
  }
  // Fills the descriptors that the caller made.
  void give(const std::vector<Descriptor>& values) const {
    if (count != nullptr) *count = static_cast<std::int64_t>(values.size());
    if (to == nullptr) return;
    const std::size_t n = std::min(values.size(), static_cast<std::size_t>(room));
    for (std::size_t i = 0; i < n; ++i) {
      Descriptor& target = *find(static_cast<cudnnBackendDescriptor_t*>(to)[i]);
      if (target.type != values[i].type) refuse("a result needs a descriptor of its type");
      target = values[i];
    }
  }
};

std::string device_properties(const Descriptor& d) {
  const auto given = d.all<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  if (!given.empty()) return {given.begin(), given.end()};
  // Each handle is of a device of its own, whose ids differ.
  const auto handle = d.one<cudnnHandle_t>(CUDNN_ATTR_DEVICEPROP_HANDLE, nullptr);
  const auto id = std::to_string(reinterpret_cast<std::uintptr_t>(handle));
  return R"({"deviceName":"fake","cudaDeviceId":)" + id + R"(,"pciDeviceId":)" + id + "}";
}

std::vector<char> characters(const std::string& text) { return {text.begin(), text.end()}; }

void answer(const Descriptor& d, cudnnBackendAttributeName_t name, const Answer& out) {
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return out.give(configurations(d));
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return out.give(std::vector<Descriptor>{*d.reference(CUDNN_ATTR_ENGINECFG_ENGINE)});
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return out.give(d.all<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return out.give(find_engine(d).numerical);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      return out.give(find_engine(d).behavior);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return out.give(std::vector<std::int64_t>{find_workspace(find_engine_of_plan(d))});
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
      return out.give(characters(to_text(*d.reference(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG))));
    case CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION:
      return out.give(characters(device_properties(d)));
    default:
      throw Refusal(CUDNN_STATUS_NOT_SUPPORTED,
                    "the fake cannot read attribute " + std::to_string(name));
  }
}

// ---- Executing ---------------------------------------------------------------------------------

void run_plan(cudnnHandle_t handle, const Descriptor& plan, const Descriptor& pack) {
  check_handle(handle);
  if (!plan.finalized || !pack.finalized) {
    throw Refusal(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan or pack is not finalized");
  }
  if (!plan.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) refuse("the plan is of no device that is here");
  const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  Addresses addresses;
  for (std::size_t i = 0; i < ids.size(); ++i) addresses[ids[i]] = pointers[i];
  const Engine& engine = find_engine_of_plan(plan);
  const auto graph = find_graph_of_plan(plan);
  check_addresses(*graph, addresses);
  void* workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  const std::int64_t bytes = find_workspace(engine);
  if (bytes > 0 && workspace == nullptr) refuse("the plan needs a workspace");
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) refuse("a misaligned workspace");

  const Arithmetic arithmetic = find_arithmetic(engine);
  const auto run = [=] {
    const Unwatched unwatched;  // the library's own work
    // All bits of the workspace are set: NaN for whoever reads it afterwards.
    if (bytes > 0) std::memset(workspace, 0xff, static_cast<std::size_t>(bytes));
    execute(*graph, addresses, arithmetic);
  };
  const double seconds =
      settings().engine_seconds ? settings().engine_seconds(engine.index) : kSmallKernelSeconds;
  const cudaError_t error = enqueue(handle->stream, "cudnnBackendExecute", run, seconds);
  if (error != cudaSuccess) {
    throw Refusal(CUDNN_STATUS_EXECUTION_FAILED, "CUDA error " + std::to_string(error));
  }
}

}  // namespace

LibrarySettings& settings() {
  static auto& all = *[] {
    auto* made = new LibrarySettings;
    const char* version = std::getenv("TRAINER_FAKE_CUDNN_VERSION");
    if (version != nullptr) made->cudnn_version = std::stoul(version);
    const char* fastest = std::getenv("TRAINER_FAKE_CUDNN_FASTEST");
    if (fastest == nullptr) return made;
    made->engine_seconds = [number = std::stoll(fastest)](std::int64_t engine) {
      return engine == number ? kSmallKernelSeconds / 2 : kSmallKernelSeconds;
    };
    return made;
  }();
  return all;
}

std::size_t live_objects() {
  const std::lock_guard lock(handles_mutex);
  return registry.size() + handles.size() + live_cublas_objects();
}

std::size_t chosen_plans() { return plans_chosen; }

}  // namespace fake

extern "C" {

using namespace fake;

size_t cudnnGetVersion() { return settings().cudnn_version; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED:
      return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

void cudnnGetLastErrorString(char* to, size_t size) {
  std::snprintf(to, size, "%s", last_error.c_str());
  last_error.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return guarded_cudnn([&] {
    const std::lock_guard lock(handles_mutex);
    *handle = *handles.insert(new cudnnContext).first;
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return guarded_cudnn([&] {
    check_handle(handle);
    const std::lock_guard lock(handles_mutex);
    handles.erase(handle);
    delete handle;
  });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return guarded_cudnn([&] {
    check_handle(handle);
    handle->stream = stream;
  });
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return guarded_cudnn([&] {
    auto made = std::make_shared<Descriptor>();
    made->type = type;
    *descriptor = made.get();
    const std::lock_guard lock(handles_mutex);
    registry[made.get()] = made;
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return guarded_cudnn([&] {
    find(descriptor);
    const std::lock_guard lock(handles_mutex);
    registry.erase(descriptor);
  });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  return guarded_cudnn([&] {
    Descriptor& d = *find(descriptor);
    if (d.finalized) refuse("an attribute is set after finalizing");
    if (values == nullptr) refuse("an attribute is set from nowhere");
    check_attribute(d, name, type, count);
    Descriptor::Attribute attribute;
    attribute.type = type;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      for (int64_t i = 0; i < count; ++i) {
        const auto to = find(static_cast<const cudnnBackendDescriptor_t*>(values)[i]);
        if (!to->finalized) {
          throw Refusal(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a reference is not finalized");
        }
        attribute.references.push_back(to);
      }
    } else {
      const char* bytes = static_cast<const char*>(values);
      attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
    }
    d.attributes[name] = std::move(attribute);
  });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return guarded_cudnn([&] { finalize(*find(descriptor)); });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t /*type*/, int64_t count,
                                       int64_t* available, void* values) {
  return guarded_cudnn([&] {
    const auto d = find(descriptor);
    if (!d->finalized) {
      throw Refusal(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "read before finalizing");
    }
    answer(*d, name, {count, available, values});
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return guarded_cudnn([&] { run_plan(handle, *find(plan), *find(pack)); });
}

}  // extern "C"
