#include "commands/weights/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/system_error.h"
#include "commands/weights/part_file.h"

namespace trainer::commands {
namespace {

namespace fs = std::filesystem;
Digest::Algorithm find_algorithm(const Checksum& checksum) {
  return checksum.kind == Checksum::Kind::kMd5 ? Digest::Algorithm::kMd5
                                               : Digest::Algorithm::kSha256;
}

const char* name_algorithm(const Checksum& checksum) {
  return checksum.kind == Checksum::Kind::kMd5 ? "MD5" : "SHA-256";
}

Path digest_file(const Path& file) { return file.string() + ".sha256"; }

std::string read_recorded(const Path& file) {
  std::error_code error;
  if (!fs::exists(digest_file(file), error)) return "";
  const std::string text = read_text_file(digest_file(file));
  return text.substr(0, text.find(' '));
}

std::string describe_difference(const std::string& actual, const std::string& expected,
                                const char* name) {
  if (actual == expected) return "";
  return concat("its ", name, " is ", actual, ", expected ", expected);
}

// What one request came to.
struct TransferOutcome {
  CURLcode code = CURLE_OK;
  long status = 0;  // of HTTP
  int write_error = 0;
  bool is_too_long = false;
  std::string text;

  bool is_transient() const {
    return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_GOT_NOTHING || code == CURLE_OPERATION_TIMEDOUT || status >= 500;
  }
  // The server does not continue at this place.
  bool has_no_range() const { return code == CURLE_RANGE_ERROR || status == 416; }
};

struct PartTransfer {
  PartFile* part;
  std::int64_t start, bytes, max_bytes;
  const DownloadProgress* progress;
  TransferOutcome* outcome;
};

std::size_t append_received(char* data, std::size_t, std::size_t count, void* target) {
  auto& transfer = *static_cast<PartTransfer*>(target);
  transfer.bytes += static_cast<std::int64_t>(count);
  transfer.outcome->is_too_long = transfer.bytes > transfer.max_bytes;
  if (transfer.outcome->is_too_long) return CURL_WRITEFUNC_ERROR;
  transfer.outcome->write_error = transfer.part->append(data, count);
  return transfer.outcome->write_error == 0 ? count : CURL_WRITEFUNC_ERROR;
}

int report_bytes(void* target, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<PartTransfer*>(target);
  if (*transfer.progress && total > 0) {
    (*transfer.progress)(transfer.bytes, transfer.start + total);
  }
  return 0;
}

using Connection = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

Connection open_connection(const Download& what) {
  static const CURLcode kStarted = curl_global_init(CURL_GLOBAL_DEFAULT);
  Connection connection(kStarted == CURLE_OK ? curl_easy_init() : nullptr, &curl_easy_cleanup);
  if (!connection) throw DataError(what.url, "libcurl cannot be started");
  CURL* curl = connection.get();
  curl_easy_setopt(curl, CURLOPT_URL, what.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 20L);
  // A connection that brings nothing for a minute is broken.
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
  if (!what.certificates.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, what.certificates.c_str());
  }
  return connection;
}

TransferOutcome send_request(CURL* curl, const Download& what, PartFile& part,
                             const DownloadProgress& progress) {
  TransferOutcome outcome;
  PartTransfer transfer{&part, part.bytes(), part.bytes(), what.max_bytes, &progress, &outcome};
  char text[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text);
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(transfer.start));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &append_received);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &report_bytes);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  outcome.code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &outcome.status);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  outcome.text = *text == '\0' ? curl_easy_strerror(outcome.code) : text;
  return outcome;
}

[[noreturn]] void reject_transfer(const Download& what, PartFile& part,
                                  const TransferOutcome& outcome) {
  if (outcome.is_too_long) {
    part.remove();
    throw DataError(what.url, concat("the server sends more than the ", what.max_bytes,
                                     " bytes that the file can have; nothing was kept of it"));
  }
  const std::int64_t bytes = part.bytes();
  if (bytes == 0) part.remove();
  const std::string kept = bytes == 0 ? ""
                                      : concat("; the next start continues after the ", bytes,
                                               " bytes in ", part.path().string());
  if (outcome.write_error != 0) {
    throw DataError(
        part.path().string(),
        concat("cannot be written: ", describe_system_error(outcome.write_error), kept));
  }
  const std::string answer = outcome.status >= 400
                                 ? concat("the server answers with status ", outcome.status)
                                 : outcome.text;
  throw DataError(what.url, concat("cannot be downloaded: ", answer, kept,
                                   "; name another server that has the file in the environment "
                                   "variable WEIGHTS_MIRROR"));
}

// Transfers what is missing.
void transfer_rest(const Download& what, PartFile& part, const DownloadProgress& progress) {
  const Connection connection = open_connection(what);
  for (int retries = 0;; ++retries) {
    const std::int64_t start = part.bytes();
    const TransferOutcome outcome = send_request(connection.get(), what, part, progress);
    // libcurl does not take status 416 for an error: usually nothing is missing.
    if (start > 0 && outcome.has_no_range()) {
      part.clear();
    } else if (outcome.code == CURLE_OK) {
      return;
    } else if (outcome.is_transient() && retries < what.max_retries) {
      std::this_thread::sleep_for(what.pause);
    } else {
      reject_transfer(what, part, outcome);
    }
  }
}

// Throws DataError and removes the part if it is another file.
void check_content(const Download& what, PartFile& part) {
  std::string difference;
  if (!part.start(what.start.size()).starts_with(what.start)) {
    difference = "it begins with other bytes";
  } else if (what.checksum.kind != Checksum::Kind::kRecorded) {
    difference = describe_difference(part.digest(find_algorithm(what.checksum)), what.checksum.hex,
                                     name_algorithm(what.checksum));
  }
  if (difference.empty()) return;
  part.remove();
  throw DataError(what.url, concat("is not the original file: ", difference,
                                   "; nothing was kept of it. Try again, or name another server "
                                   "in the environment variable WEIGHTS_MIRROR"));
}

bool is_whole(const Download& what, const PartFile& part) {
  return part.bytes() > 0 && what.checksum.kind != Checksum::Kind::kRecorded &&
         part.digest(find_algorithm(what.checksum)) == what.checksum.hex;
}

}  // namespace

std::string find_difference(const Path& file, const Checksum& checksum) {
  std::string expected = checksum.hex;
  if (checksum.kind == Checksum::Kind::kRecorded) expected = read_recorded(file);
  if (expected.empty()) return "";
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    throw DataError(file.string(), "cannot read: " + describe_system_error(errno));
  const std::shared_ptr<void> closer(nullptr, [descriptor](void*) { ::close(descriptor); });
  return describe_difference(hash_file(descriptor, file, find_algorithm(checksum)), expected,
                             name_algorithm(checksum));
}

Downloaded download(const Download& what, const DownloadProgress& progress) {
  Downloaded result;
  std::error_code error;
  fs::create_directories(what.file.parent_path(), error);
  if (error) {
    throw DataError(what.file.parent_path().string(),
                    concat("cannot be made: ", error.message(),
                           "; name a folder that can be written in the environment variable "
                           "WEIGHTS_DIR"));
  }
  result.file = what.file;
  if (fs::exists(what.file)) {
    if (const std::string difference = find_difference(what.file, what.checksum);
        !difference.empty()) {
      throw DataError(what.file.string(),
                      concat("is there and is not the original file: ", difference,
                             "; remove it to download the original"));
    }
    result.was_there = true;
    result.bytes = static_cast<std::int64_t>(fs::file_size(what.file));
    return result;
  }
  PartFile part(what.file);
  result.resumed = part.bytes();
  if (!is_whole(what, part)) transfer_rest(what, part, progress);
  check_content(what, part);
  result.bytes = part.bytes();
  if (what.checksum.kind == Checksum::Kind::kRecorded) {
    result.sha256 = part.digest(Digest::Algorithm::kSha256);
    write_file_atomic(digest_file(what.file),
                      concat(result.sha256, "  ", what.file.filename().string(), "\n"));
  }
  part.publish(what.file);
  return result;
}

}  // namespace trainer::commands
