// Waits until files are on the disk.
#pragma once

#include "base/files/files.h"

namespace trainer {

// Waits until the content of an open file, or the names in an open folder, are on the disk. Returns
// 0 or the error number. Returns 0 without a wait for pipes and devices, and on a file system that
// cannot sync, such as some FUSE and network mounts.
int sync_descriptor(int descriptor);

// Returns false if the file system cannot sync this folder: a loss of power may then remove files
// that were written before it. Returns true for a folder that cannot be opened.
bool can_sync_folder(const Path& folder);

}  // namespace trainer
