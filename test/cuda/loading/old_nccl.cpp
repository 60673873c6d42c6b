// A libnccl.so.2 that is too old: it has one function.
extern "C" int ncclGetUniqueId(void*) { return 0; }
