// A library that is looked for when it is first needed.
#pragma once

#include <string>

namespace trainer::backend {

// Parts of the messages about a library. Each message ends with what the user can do.
struct LibraryTexts {
  std::string file;         // "libnccl.so.2"
  std::string not_opened;   // "several GPUs need NCCL, and it cannot be opened"
  std::string get_it;       // "install NCCL"
  std::string no_function;  // "is too old for several GPUs: it has no function"
  std::string update_it;    // "install NCCL 2.18 or newer"
};

// Never closed: threads of the library may outlive the code that opened it.
class SharedLibrary {
 public:
  // Throws DeviceError "<not_opened>: <reason>; <get_it>".
  explicit SharedLibrary(const LibraryTexts& texts);

  // Throws DeviceError "<file> <no_function> <name> (<reason>); <update_it>".
  template <class Function>
  void require(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(required(name));
  }
  // Returns null if the library has no such function.
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(found(name));
  }

 private:
  void* required(const char* name) const;
  void* found(const char* name) const;

  LibraryTexts texts_;
  void* library_;
};

}  // namespace trainer::backend
