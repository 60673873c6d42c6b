// Downloads of one file each over HTTP.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/files/files.h"
#include "base/spelling.h"

namespace trainer::commands {

// The identity of a file. kRecorded: the publisher gives no checksum. The first download then
// writes the SHA-256 into "<file>.sha256", which later checks use.
struct Checksum {
  enum class Kind { kMd5, kSha256, kRecorded };
  Kind kind = Kind::kRecorded;
  std::string hex;  // lower case, of kSha256 maybe the first digits alone; empty for kRecorded
};

constexpr auto spellings(Checksum::Kind) {
  using enum Checksum::Kind;
  return std::to_array<Spelling<Checksum::Kind>>(
      {{kMd5, "md5"}, {kSha256, "sha256"}, {kRecorded, "recorded"}});
}

struct Download {
  std::string url;
  Path file;
  Checksum checksum;
  std::string start;  // the first bytes of the file; "" for any
  std::int64_t min_bytes = 0, max_bytes = 0;
  // Returns what is wrong with the content of a whole file; "" if nothing is. Used for a file
  // without a published checksum.
  std::function<std::string(const Path& file)> find_fault = {};
  // The name of a header with the SHA-256, where a server sends it: X-Linked-Etag. It takes the
  // place of kRecorded.
  std::string digest_header = {};
  std::string token = {};   // sent to the host of `url` alone, and in no message
  std::string denied = {};  // the reason and the advice after status 401 or 403
  Path certificates;        // see http::ClientOptions
  // The number of retries after a broken connection, each after `pause`.
  int max_retries = 4;
  std::chrono::milliseconds pause = std::chrono::seconds(1);
};

// Receives the bytes that are there and those of the whole file; 0 for an unknown number.
using DownloadProgress = std::function<void(std::int64_t bytes, std::int64_t total)>;

struct Downloaded {
  Path file;
  bool was_there = false;    // nothing was transferred
  std::int64_t resumed = 0;  // bytes of an earlier start
  std::int64_t bytes = 0;    // size of the file
  std::string sha256;        // set for Checksum::Kind::kRecorded
};

// Returns "" if `file` is what `checksum` identifies, else the difference: "its MD5 is 1f..,
// expected 6d..". Throws DataError if the file cannot be read.
std::string find_difference(const Path& file, const Checksum& checksum);

// Puts the file at `file`, whole and checked, or not at all. What an interrupted download received
// stays in ".<name>.part" beside it, and the next one continues there. One process at a time
// downloads a file. Throws DataError if the transfer fails, if the file is another one (nothing is
// kept of it), or if another file of the name is there (which stays).
Downloaded download(const Download& what, const DownloadProgress& progress = {});

}  // namespace trainer::commands
