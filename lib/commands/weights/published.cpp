#include "commands/weights/published.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/weights.h"
#include "http/certificates.h"
#include "http/client.h"

namespace trainer::commands {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{64} << 30;

// Returns the digits of the SHA-256 in the name of a file: "11ad3fa6" of resnet50-11ad3fa6.pth.
Checksum read_checksum(const std::string& file) {
  const std::size_t dash = file.rfind('-'), dot = file.rfind('.');
  return {Checksum::Kind::kSha256, file.substr(dash + 1, dot - dash - 1)};
}

Downloaded download_torchvision(const config::WeightName& name,
                                const config::Environment& environment,
                                const DownloadProgress& progress) {
  const config::WeightRow* row = config::find_weight_row(name.text());
  if (row == nullptr) {
    throw ConfigError({}, name.text(), ' ', config::missing_named_weights(name, environment));
  }
  std::string server = read_server(environment, "WEIGHTS_MIRROR");
  if (server.empty()) server = "https://download.pytorch.org";
  std::string folder = read_variable(environment, "WEIGHTS_DIR");
  if (folder.empty()) folder = config::torch_folder(environment);
  Download what;
  what.url = concat(server, "/models/", row->file);
  const std::string found = config::find_named_file(name, environment);
  what.file = found.empty() ? Path(folder) / row->file : Path(found);
  what.checksum = read_checksum(row->file);
  what.max_bytes = kMaxBytes;
  what.certificates = http::find_certificates(environment);
  return download(what, progress);
}

// Hugging Face's hub, or a mirror of it.
struct Hub {
  std::string url;
  std::string token;  // "" for none
};

Hub find_hub(const config::Environment& environment) {
  std::string mirror = read_server(environment, "WEIGHTS_MIRROR");
  if (!mirror.empty()) return {std::move(mirror), ""};
  std::string hub = read_server(environment, "HF_ENDPOINT");
  if (hub.empty()) hub = "https://huggingface.co";
  return {std::move(hub), read_variable(environment, "HF_TOKEN")};
}

// Downloads from one repository of the hub.
class Repository {
 public:
  Repository(const config::WeightName& name, const config::Environment& environment)
      : name_(name), environment_(environment), hub_(find_hub(environment)) {}

  Downloaded download_weights(const DownloadProgress& progress) {
    if (const std::string found = config::find_named_file(name_, environment_); !found.empty()) {
      return download(describe_weights(found), progress);
    }
    const std::string config = read_text("config.json", "X-Repo-Commit", Absence::kError);
    const Path folder = find_folder();
    // What find_named_file() looks for is written last.
    std::filesystem::create_directories(folder);
    write_file_atomic(folder / "config.json", config);
    const nlohmann::json description = nlohmann::json::parse(config, nullptr, false);
    if (description.is_object() && description.contains("model_type")) {
      const std::string images = read_text("preprocessor_config.json", "", Absence::kAllowed);
      if (!images.empty()) write_file_atomic(folder / "preprocessor_config.json", images);
    }
    if (has_own_folder()) write_file_atomic(folder / "revision", revision_);
    const Downloaded result = download(describe_weights(folder / "model.safetensors"), progress);
    if (!has_own_folder()) {
      std::filesystem::create_directories(root() / "refs");
      write_file_atomic(root() / "refs" / "main", revision_);
    }
    return result;
  }

 private:
  enum class Absence { kError, kAllowed };

  std::string address(const std::string& file) const {
    return concat(hub_.url, '/', name_.text(), "/resolve/", revision_, '/', file);
  }
  std::string denied() const {
    return concat(
        "there is no such model, or it needs an account: accept its conditions on "
        "https://huggingface.co/",
        name_.text(), " and set HF_TOKEN to a token of your account",
        hub_.token.empty() ? "" : "; the one that is set was sent");
  }

  // Returns a small file. Sets the revision to the value of the header, if there is one.
  std::string read_text(const std::string& file, const std::string& header, Absence absence) {
    http::Client client({http::find_certificates(environment_), {.token = hub_.token}});
    http::Request request;
    request.url = address(file);
    request.follows_redirects = true;
    request.wanted_header = header;
    request.max_stall = std::chrono::seconds(60);
    const http::Response response = client.send(request);
    if (response.status == 404 && absence == Absence::kAllowed) return "";
    if (response.status == 401 || response.status == 403) {
      throw DataError(request.url, "the server answers with status ", response.status, ": ",
                      denied());
    }
    if (!response.error.empty() || response.status >= 400) {
      throw DataError(request.url, "cannot be downloaded: ",
                      response.error.empty()
                          ? concat("the server answers with status ", response.status)
                          : response.error,
                      "; name another server that has the file in the environment variable "
                      "WEIGHTS_MIRROR");
    }
    const bool is_commit =
        response.header.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (is_commit && !response.header.empty()) revision_ = response.header;
    return response.body;
  }

  bool has_own_folder() const { return !read_variable(environment_, "WEIGHTS_DIR").empty(); }
  Path find_folder() const {
    if (has_own_folder()) {
      return Path(read_variable(environment_, "WEIGHTS_DIR")) / name_.library / name_.model;
    }
    return root() / "snapshots" / revision_;
  }
  Path root() const {
    const std::vector<std::string> caches = config::hub_caches(environment_);
    if (caches.empty()) {
      throw DataError(name_.text(),
                      "has no folder to be downloaded to; name one in the environment variable "
                      "WEIGHTS_DIR");
    }
    return config::hub_repository(caches.front(), name_);
  }
  Download describe_weights(const Path& file) const {
    Download what;
    what.url = address("model.safetensors");
    what.file = file;
    what.max_bytes = kMaxBytes;
    what.digest_header = "X-Linked-Etag";
    what.token = hub_.token;
    what.denied = denied();
    what.find_fault = [](const Path& part) -> std::string {
      try {
        checkpoint::read_weights(part, {"", checkpoint::Content::kShapes});
        return "";
      } catch (const DataError& error) {
        return error.what();
      }
    };
    what.certificates = http::find_certificates(environment_);
    return what;
  }

  const config::WeightName& name_;
  const config::Environment& environment_;
  Hub hub_;
  std::string revision_ = "main";  // a commit, where the server names it
};

}  // namespace

std::string read_server(const config::Environment& environment, const std::string& variable) {
  std::string server = read_variable(environment, variable);
  while (server.ends_with('/')) server.pop_back();
  return server;
}

Downloaded download_published(const config::WeightName& name,
                              const config::Environment& environment,
                              const DownloadProgress& progress) {
  if (name.is_torchvision()) return download_torchvision(name, environment, progress);
  return Repository(name, environment).download_weights(progress);
}

}  // namespace trainer::commands
