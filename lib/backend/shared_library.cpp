#include "backend/shared_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace trainer::backend {

// RTLD_LOCAL: a library may have copies of functions of the program, which must not replace them.
SharedLibrary::SharedLibrary(const LibraryTexts& texts)
    : texts_(texts), library_(::dlopen(texts.file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ != nullptr) return;
  throw DeviceError(concat(texts.not_opened, ": ", ::dlerror(), "; ", texts.get_it));
}

void* SharedLibrary::found(const char* name) const { return ::dlsym(library_, name); }

void* SharedLibrary::required(const char* name) const {
  ::dlerror();
  if (void* function = found(name)) return function;
  const char* reason = ::dlerror();
  throw DeviceError(concat(texts_.file, ' ', texts_.no_function, ' ', name, " (",
                           reason == nullptr ? "its address is 0" : reason, "); ",
                           texts_.update_it));
}

}  // namespace trainer::backend
