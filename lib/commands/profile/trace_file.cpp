#include "commands/profile/trace_file.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;
using backend::WorkRecord;
using Clock = ProfileTimeline::Clock;

// Processes of the trace: the host, then the ranks.
constexpr int kHost = 1, kFirstRank = 2;
// Threads of the host: the loop, then those of the loader. Of a rank: the thread that sums over
// ranks comes behind all others.
constexpr int kLoop = 1, kFirstLoader = 2, kFirstThread = 1, kReduction = 1000;

class Events {
 public:
  explicit Events(Clock::time_point zero) : zero_(zero) {}

  // A complete event; times are in microseconds.
  void add(int process, int thread, const std::string& name, const char* category,
           Clock::time_point start, Clock::time_point end, Json arguments = Json::object()) {
    events_.push_back({{"name", name},
                       {"cat", category},
                       {"ph", "X"},
                       {"pid", process},
                       {"tid", thread},
                       {"ts", microseconds(zero_, start)},
                       {"dur", microseconds(start, end)},
                       {"args", std::move(arguments)}});
  }
  void name_process(int process, const std::string& name) {
    events_.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", name}}}});
  }
  void name_thread(int process, int thread, const std::string& name) {
    events_.push_back({{"name", "thread_name"},
                       {"ph", "M"},
                       {"pid", process},
                       {"tid", thread},
                       {"args", {{"name", name}}}});
  }
  Json take() { return std::move(events_); }

 private:
  static double microseconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::micro>(to - from).count();
  }
  Clock::time_point zero_;
  Json events_ = Json::array();
};

void add_host(const ProfileTimeline& timeline, Events& events) {
  events.name_process(kHost, "host");
  events.name_thread(kHost, kLoop, "training loop");
  for (std::size_t i = 0; i < timeline.steps.size(); ++i) {
    const ProfileTimeline::Step& step = timeline.steps[i];
    events.add(kHost, kLoop, concat("step ", i + 1), "step", step.start, step.end,
               {{"samples", step.samples}});
    events.add(kHost, kLoop, "data wait", "phase", step.start, step.got_batch);
    events.add(kHost, kLoop, "device", "phase", step.got_batch, step.end);
  }
  std::map<int, bool> loaders;
  for (const data::ReadBatch& read : timeline.reads) {
    // A batch that the loop has read itself is on the loop's thread.
    const int thread = read.thread < 0 ? kLoop : kFirstLoader + read.thread;
    loaders[thread] = true;
    events.add(kHost, thread, concat("read batch ", read.step), "input", read.start, read.end);
  }
  for (const auto& [thread, reads] : loaders) {
    if (thread != kLoop) {
      events.name_thread(kHost, thread, concat("loader thread ", thread - kFirstLoader));
    }
  }
}

const char* name_phase(const WorkRecord& record) {
  if (record.kind == WorkRecord::Kind::kUpdate) return "update";
  if (record.kind != WorkRecord::Kind::kLayer) return "";
  return record.phase >= graph::Phase::kBackward ? "backward" : "forward";
}

// A slice around neighbouring records of one phase; `records` are of one thread, by time.
void add_phases(int process, int thread, const std::vector<WorkRecord>& records, Events& events) {
  for (std::size_t i = 0; i < records.size();) {
    const std::string phase = name_phase(records[i]);
    std::size_t end = i + 1;
    while (end < records.size() && name_phase(records[end]) == phase) ++end;
    if (phase == "forward" || phase == "backward") {
      events.add(process, thread, phase, "phase", records[i].start, records[end - 1].end);
    }
    i = end;
  }
}

void add_rank(int rank, const std::vector<WorkRecord>& records, const std::string& name,
              Events& events) {
  const int process = kFirstRank + rank;
  events.name_process(process, name);
  std::map<int, std::vector<WorkRecord>> threads;
  for (const WorkRecord& record : records) threads[record.thread].push_back(record);
  for (auto& [thread, own] : threads) {
    const bool reduces = thread == backend::kReductionThread;
    const int id = reduces ? kReduction : kFirstThread + thread;
    events.name_thread(process, id, reduces ? "all-reduce" : concat("worker thread ", thread));
    std::ranges::sort(own, {}, &WorkRecord::start);
    if (!reduces) add_phases(process, id, own, events);
    for (const WorkRecord& record : own) {
      if (record.kind == WorkRecord::Kind::kLayer) {
        events.add(process, id, std::string(record.layer), name_phase(record), record.start,
                   record.end, {{"implementation", std::string(record.implementation)}});
        continue;
      }
      Json arguments = Json::object();
      if (record.bytes > 0) arguments["bytes"] = record.bytes;
      events.add(process, id, std::string(reduces ? "all-reduce bucket" : spell(record.kind)),
                 reduces ? "all-reduce" : "device", record.start, record.end, arguments);
    }
  }
}

}  // namespace

std::string trace_json(const LayerProfile& profile) {
  const ProfileTimeline& timeline = profile.timeline;
  Clock::time_point zero = timeline.steps.empty() ? Clock::now() : timeline.steps.front().start;
  for (const data::ReadBatch& read : timeline.reads) zero = std::min(zero, read.start);
  Events events(zero);
  add_host(timeline, events);
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    add_rank(static_cast<int>(rank), timeline.ranks[rank],
             concat("rank ", rank, " (", profile.device, ")"), events);
  }
  return to_json_line({{"traceEvents", events.take()}, {"displayTimeUnit", "ms"}}) + "\n";
}

}  // namespace trainer::commands
