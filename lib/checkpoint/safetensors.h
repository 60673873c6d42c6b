// Reads and writes checkpoint files. A checkpoint holds everything that a run needs to continue as
// if it had never stopped.
//
// The format is safetensors (https://github.com/huggingface/safetensors): u64 little-endian header
// length, JSON header, raw little-endian tensors. Parameters, statistics and slots are float32
// under their names. The header's __metadata__ holds "trainer" (format version), "sha256" of the
// tensor bytes, "header_sha256" of the rest of the header, and the fields of train::RunState as
// strings. The safetensors package can read the files.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint {

// Write and read any safetensors file. Tensors of integers are written as I64. Reading checks
// lengths, offsets and, if the file has them, the format version and the checksums; it converts
// F32, F16, BF16, F64 and integer tensors to float. They throw DataError naming the fault. Metadata
// that is not UTF-8 is written with U+FFFD. With kShapes, reading looks at the header and the size
// of the file alone. `progress` advances with the bytes.
void write_safetensors(const Path& path, const std::vector<Tensor>& tensors,
                       const Metadata& metadata, const Progress& progress = {});
TensorFile read_safetensors(const Path& path, Content content = Content::kAll);
// Reads a safetensors file with both checksums, which write_safetensors() writes. Runs are resumed
// from such files, and they contain a config. Throws DataError for any other file.
TensorFile read_checkpoint(const Path& path);

// Returns the SHA-256 over the float32 bytes of the tensors in name order.
std::string sha256_of(const std::vector<Tensor>& tensors);

}  // namespace trainer::checkpoint
