// A tool for NVTX, which writes the ranges that a program pushes and pops to the file named by
// TRAINER_NVTX_LOG: "THREAD push DOMAIN/NAME" and "THREAD pop DOMAIN".
//
// Follows nvtx3/nvtxDetail/nvtxInit.h ("Initialization"): the library that NVTX_INJECTION64_PATH
// names is opened at the first call of NVTX, and its InitializeInjectionNvtx2 replaces entries of
// the table that it gets from the export table NVTX_ETID_CALLBACKS.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace {

struct Domain {
  const char* name;
};
Domain the_domain{"?"};

std::mutex& mutex() {
  static std::mutex* const kMutex = new std::mutex;  // threads may outlive main()
  return *kMutex;
}

unsigned thread_number() {
  static unsigned threads = 0;
  thread_local const unsigned kNumber = ++threads;
  return kNumber;
}

void write(const char* what, nvtxDomainHandle_t domain, const char* name) {
  const std::lock_guard lock(mutex());
  static std::FILE* const kLog = std::fopen(std::getenv("TRAINER_NVTX_LOG"), "w");
  if (kLog == nullptr) std::abort();
  const char* in = reinterpret_cast<Domain*>(domain)->name;
  std::fprintf(kLog, "%u %s %s%s%s\n", thread_number(), what, in, *name != 0 ? "/" : "", name);
  std::fflush(kLog);
}

nvtxDomainHandle_t create_domain(const char* name) {
  the_domain.name = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&the_domain);
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  if (attributes->version != NVTX_VERSION || attributes->messageType != NVTX_MESSAGE_TYPE_ASCII) {
    std::abort();
  }
  write("push", domain, attributes->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  write("pop", domain, "");
  return 0;
}

template <class Function>
void replace(NvtxFunctionTable table, unsigned size, NvtxCallbackIdCore2 id, Function* function) {
  if (static_cast<unsigned>(id) >= size) std::abort();
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  replace(table, size, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  replace(table, size, NVTX_CBID_CORE2_DomainRangePushEx, push);
  replace(table, size, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
