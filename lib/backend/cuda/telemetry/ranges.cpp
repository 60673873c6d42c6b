#include "backend/cuda/telemetry/ranges.h"

namespace trainer::backend::cuda {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kDomain = nvtxDomainCreateA("trainer");
  return kDomain;
}

}  // namespace

Range::Range(const char* name) : domain_(domain()) {
  if (domain_ == nullptr) return;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain_, &attributes);
}

}  // namespace trainer::backend::cuda
