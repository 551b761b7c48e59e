#include "policies/runtime/run_core.h"

#include <algorithm>

#include "policies/runtime/check.h"

namespace schedtwin {

bool TurnSet::PopShuffled(std::uint32_t* device) {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t i = 0; i < slot_free_.size(); ++i) {
    if ((due_[i / 64] >> (i % 64) & 1) == 0) continue;
    const std::uint64_t tie = ShuffleTie(i, tie_seed_);
    if (tie < least) {
      least = tie;
      *device = i;
    }
  }
  due_[*device / 64] &= ~(std::uint64_t{1} << (*device % 64));
  --count_;
  return true;
}

void RunCore::EndRequest(std::uint32_t id, EndReason reason, Time end) {
  const RequestHot& hot = requests.hot(id);
  const RequestCold& cold = requests.cold(id);
  const RequestFate& fate = requests.fate(id);
  SCHEDTWIN_CHECK(hot.state == RequestState::kWaiting && hot.owned_blocks == 0);
  outcome.AddRequest(HashWords(
      {id, static_cast<std::uint64_t>(reason) | (std::uint64_t{cold.preemptions} << 8),
       hot.output_tokens, fate.token_hash, static_cast<std::uint64_t>(fate.first_token.ns()),
       static_cast<std::uint64_t>(fate.last_token.ns()), static_cast<std::uint64_t>(end.ns()),
       fate.last_device}));
  journal.Event(now, EventCode::kFinished, id, static_cast<std::uint64_t>(reason));
  last_end = std::max(last_end, end);
  ++ended[static_cast<std::size_t>(reason)];
  ++progress;
  if (recorder != nullptr) {
    RequestRecord record;
    record.id = {id};
    record.reason = reason;
    record.prompt_tokens = cold.spec.prompt_tokens;
    record.output_tokens = hot.output_tokens;
    record.units = kind == ModelKind::kOneShot ? cold.spec.units : 0;
    record.tenant = cold.spec.tenant;
    record.request_class = cold.spec.request_class;
    record.priority = cold.spec.priority;
    record.preemptions = cold.preemptions;
    record.recomputed_tokens = fate.recomputed_tokens;
    record.cached_tokens = cold.cached_tokens;
    record.device = {fate.last_device};
    record.arrival = cold.spec.arrival;
    record.admitted = fate.admitted;
    record.first_start = fate.first_start;
    record.first_token = fate.first_token;
    record.last_token = fate.last_token;
    record.end = end;
    recorder->OnRequest(record);
  }
  sources[fate.source].source->OnRequestEnd(fate.source_index, reason, now);
  if (sources[fate.source].waiting) pull_again.push_back(fate.source);
  requests.End(id);
  // All of them: it may have been on others before.
  for (CommandSender* device : end_listeners) {
    device->Send({.kind = CommandKind::kEnd, .request = id});
  }
}

}  // namespace schedtwin
