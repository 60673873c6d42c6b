#include "server/channel.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <malloc.h>

#include <cstdlib>

#include "base/process/secret.h"

namespace trainer::server {

std::vector<std::pair<std::string, int>> channel_arguments(std::chrono::milliseconds timeout) {
  const int quarter = static_cast<int>(timeout.count() / 4);
  return {{GRPC_ARG_KEEPALIVE_TIME_MS, quarter},
          {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2 * quarter},
          {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
          {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
          {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1},
          {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},
          {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 22},
          {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 24},
          {"grpc.experimental.tcp_read_chunk_size", 1 << 20},
          {"grpc.experimental.tcp_max_read_chunk_size", 1 << 22},
          {"grpc.experimental.tcp_min_read_chunk_size", 1 << 16},
          {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
          {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100},
          {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000}};
}

std::string make_token(const std::string& secret) {
  return secret.empty() ? "" : compute_proof(secret, {"trainer parameter server"});
}

void prepare_process() {
  // Messages of a megabyte come and go: handing their memory back to the kernel each time costs as
  // much as the messages.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (std::getenv("GRPC_VERBOSITY") != nullptr) return;
  gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace trainer::server
