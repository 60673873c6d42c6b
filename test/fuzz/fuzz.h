// What reads bytes from outside, each as a function of these bytes that must return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::fuzz {

using Bytes = std::span<const std::uint8_t>;

// Takes any bytes. An error of the program (trainer::Error) is an answer; everything else that is
// thrown, a signal, a sanitizer's report and a wrong result end the process.
struct Target {
  const char* name;
  void (*run)(Bytes input);
};
const std::vector<Target>& targets();
// Inputs of a target whose names, lines, labels, keys or numbers have 64 KB and more; none for
// formats without these.
std::vector<std::vector<std::uint8_t>> long_inputs(const std::string& target);

void run_images(Bytes input);  // PNG, BMP, GIF, PNM, and JPEG by its kind
void run_jpeg(Bytes input);    // our decoder against libjpeg-turbo's, bit for bit
void run_idx(Bytes input);     // and gzip
void run_npy(Bytes input);
void run_npz(Bytes input);
void run_csv(Bytes input);      // a list of files and labels
void run_relabel(Bytes input);  // data.relabel; `data --suspects` writes such a file
void run_zip(Bytes input);      // class folders of images in an archive
void run_tar(Bytes input);      // a shard of images
void run_tfrecord(Bytes input);
void run_cifar(Bytes input);
void run_safetensors(Bytes input);
void run_weights(Bytes input);     // HDF5, .keras, npz, .pth, by their first bytes
void run_checkpoint(Bytes input);  // a run folder whose checkpoint this is
void run_yaml(Bytes input);
void run_set(Bytes input);          // --set PATH=VALUE, a line each
void run_environment(Bytes input);  // TF_CONFIG and the launchers' variables, NAME=VALUE a line
void run_metrics(Bytes input);      // files of a run folder, as sweeps and comparisons read them
void run_rendezvous(Bytes input);   // what an unauthenticated peer sends to rank 0
void run_messages(Bytes input);     // what rank 0 is sent by ranks and what it answers: parsing
void run_ring(Bytes input);         // memory that another process writes
void run_servers(Bytes input);      // what a parameter server is sent

// A file of this process with these bytes, in memory where there is a file system for it.
const std::string& as_file(Bytes bytes, const char* ending);
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// Calls and takes the program's own errors for answers.
void expect_errors_only(const std::function<void()>& call);
// So that reading a value is not left out.
template <class T>
void use(const T& value) {
  asm volatile("" : : "m"(value) : "memory");
}
// A wrong result.
[[noreturn]] void found(const std::string& what);

}  // namespace trainer::fuzz
