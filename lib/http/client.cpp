#include "http/client.h"

#include <curl/curl.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace trainer::http {
namespace {

constexpr std::size_t kMaxBodyBytes = 1 << 20;

using HeaderList = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

HeaderList make_headers(const std::vector<std::string>& headers) {
  // Without this, libcurl waits up to a second before it sends a large body.
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : headers) list = curl_slist_append(list, header.c_str());
  return {list, &curl_slist_free_all};
}

struct Transfer {
  const Request* request;
  Response* response;
};

std::size_t take_piece(char* data, std::size_t, std::size_t count, void* target) {
  const auto& transfer = *static_cast<Transfer*>(target);
  if (transfer.request->receive) {
    return transfer.request->receive({data, count}) ? count : CURL_WRITEFUNC_ERROR;
  }
  std::string& body = transfer.response->body;
  body.append(data, std::min(count, kMaxBodyBytes - body.size()));
  return count;
}

int ask_to_proceed(void* target, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
  const Request& request = *static_cast<Transfer*>(target)->request;
  return !request.proceed || request.proceed(total) ? 0 : 1;
}

bool is_transient(CURLcode code, long status) {
  constexpr long kTimeout = 408, kTooManyRequests = 429, kServerError = 500;
  switch (code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
      return true;
    default:
      return status == kTimeout || status == kTooManyRequests || status >= kServerError;
  }
}

void set_body(CURL* curl, const Request& request) {
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
}

void set_credentials(CURL* curl, const Credentials& credentials) {
  if (!credentials.user.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    curl_easy_setopt(curl, CURLOPT_USERNAME, credentials.user.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, credentials.password.c_str());
  } else if (!credentials.token.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, credentials.token.c_str());
  }
}

std::string read_header(CURL* curl, const std::string& name) {
  curl_header* header = nullptr;
  for (int request = 0;; ++request) {
    switch (curl_easy_header(curl, name.c_str(), 0, CURLH_HEADER, request, &header)) {
      case CURLHE_OK:
        return header->value;
      case CURLHE_MISSING:
        continue;
      default:
        return "";
    }
  }
}

}  // namespace

struct Client::Handle {
  CURL* curl = nullptr;
  ~Handle() { curl_easy_cleanup(curl); }
};

Client::Client(ClientOptions options)
    : options_(std::move(options)), handle_(std::make_unique<Handle>()) {
  static const CURLcode kStarted = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (kStarted == CURLE_OK) handle_->curl = curl_easy_init();
  if (handle_->curl == nullptr) throw DataError("libcurl", "cannot be started");
}

Client::~Client() = default;

Response Client::send(const Request& request) {
  constexpr long kConnectSeconds = 20;
  CURL* curl = handle_->curl;
  curl_easy_reset(curl);
  Response response;
  Transfer transfer{&request, &response};
  char text[CURL_ERROR_SIZE] = "";
  const HeaderList headers = make_headers(request.headers);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  const bool is_secure = request.url.starts_with("https:");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_secure ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.follows_redirects ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // does not wait for a resolver that hangs
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(request.max_duration.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.max_stall.count()));
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(request.first_byte));
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, request.receive ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take_piece);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &ask_to_proceed);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  if (request.method != "GET") set_body(curl, request);
  set_credentials(curl, options_.credentials);
  if (!options_.certificates.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, options_.certificates.c_str());
  }
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response.status);
  if (!request.wanted_header.empty()) response.header = read_header(curl, request.wanted_header);
  if (code != CURLE_OK) response.error = *text == '\0' ? curl_easy_strerror(code) : text;
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  constexpr long kRangeNotSatisfiable = 416;
  response.is_transient = is_transient(code, response.status);
  response.has_no_range = code == CURLE_RANGE_ERROR || response.status == kRangeNotSatisfiable;
  return response;
}

}  // namespace trainer::http
