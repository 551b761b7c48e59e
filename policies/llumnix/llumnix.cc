#include "policies/llumnix/llumnix.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "policies/parts/common_parameters.h"

namespace schedtwin {
namespace {

constexpr std::array<std::string_view, 2> kStates = {"exact", "reported"};
constexpr std::array<std::string_view, 2> kStages = {"two", "multi"};
constexpr std::array<std::string_view, 3> kChoices = {"last_running", "shortest_running",
                                                      "longest_running"};
enum TimerTag : std::uint64_t { kMigrate, kScale };
constexpr std::size_t kSessions = 4096;  // a power of two

constexpr std::array<ParameterSpec, 19> kParameters = {{
    {.name = "state",
     .type = ParameterType::kChoice,
     .default_text = "exact",
     .meaning = "what dispatch and pairing go by: the present, or what devices have reported",
     .choices = kStates},
    {.name = "migration",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning = "move decoding requests between devices"},
    {.name = "migration_interval",
     .type = ParameterType::kDuration,
     .default_text = "100ms",
     .min = 1,
     .meaning = "devices are paired so often while requests live (state exact)"},
    {.name = "reports_per_migration",
     .default_text = "4",
     .min = 1,
     .max = 1'000'000,
     .unit = "reports of each device",
     .meaning = "devices are paired after so many (state reported)"},
    {.name = "migrate_threshold",
     .type = ParameterType::kNumber,
     .default_text = "1.5",
     .min = 0,
     .max = 1'000'000,
     .unit = "blocks for each request",
     .meaning = "a device gives while its freeness is below, and takes while it is above"},
    {.name = "defragmentation",
     .type = ParameterType::kFlag,
     .default_text = "true",
     .meaning =
         "pair by freeness less what all who wait will take, whatever the gap; off: by free blocks "
         "alone, and only where the gap shrinks"},
    {.name = "choice",
     .type = ParameterType::kChoice,
     .default_text = "last_running",
     .meaning = "which decoding request is moved",
     .choices = kChoices},
    {.name = "stages",
     .type = ParameterType::kChoice,
     .default_text = "two",
     .meaning = "two: one live copy, then the rest; multi: live copies until little is left",
     .choices = kStages},
    {.name = "max_stages",
     .default_text = "3",
     .min = 1,
     .max = 1'000,
     .unit = "stages",
     .meaning = "a migration that has made so many live copies is given up (stages multi)"},
    {.name = "last_stage_blocks",
     .default_text = "16",
     .min = 1,
     .max = 1'000'000,
     .unit = "blocks",
     .meaning = "the last stage copies so many at most (stages multi)"},
    {.name = "watermark_permille",
     .default_text = "10",
     .min = 0,
     .max = 1'000,
     .unit = "thousandths of all blocks",
     .meaning = "blocks that freeness does not count as available"},
    {.name = "priority_target_tokens",
     .default_text = "1600",
     .min = 0,
     .max = 1'000'000'000,
     .unit = "tokens",
     .meaning = "what a device with a high-priority request (priority below 0) should hold; the "
                "rest of it is headroom"},
    {.name = "scaling_interval",
     .type = ParameterType::kDuration,
     .default_text = "0s",
     .meaning = "devices are added and drained so often while requests live; 0: never"},
    {.name = "scale_up_threshold",
     .type = ParameterType::kNumber,
     .default_text = "4",
     .min = 0,
     .max = 1'000'000,
     .unit = "blocks for each request",
     .meaning = "a device is added while the mean freeness is below"},
    {.name = "scale_down_threshold",
     .type = ParameterType::kNumber,
     .default_text = "100",
     .min = 0,
     .max = 1'000'000,
     .unit = "blocks for each request",
     .meaning = "the last device is drained while the freeness of every one is above"},
    kMaxNumSeqsParameter,
    {.name = "max_num_batched_tokens",
     .default_text = "2048",
     .min = 1,
     .max = 1'000'000,
     .unit = "tokens",
     .meaning = "tokens that one step computes, at most"},
    kStandingSetParameter,
    kPlanStepsParameter,
}};

std::string Check(const Parameters& parameters) {
  if (parameters.number("scale_down_threshold") < parameters.number("scale_up_threshold")) {
    return "scale_down_threshold is below scale_up_threshold; devices would come and go";
  }
  const bool multi = parameters.choice("stages") == "multi";
  if (multi ||
      (parameters.integer("max_stages") == 3 && parameters.integer("last_stage_blocks") == 16)) {
    return {};
  }
  return "max_stages and last_stage_blocks are rules of stages=multi; stages=two has none";
}

constexpr PolicyInfo kInfo = {
    .name = "llumnix",
    .summary = "Llumnix: dispatch by freeness, and live migration of decoding requests.",
    .source =
        "Sun et al., Llumnix: Dynamic Scheduling for Large Language Model Serving (OSDI'24); "
        "alibaba/llm-scheduling-artifact (a9082430)",
    .one_shot = false,
    .decoder = true,
    .parameters = kParameters,
    .create = [](const Parameters& parameters) -> std::unique_ptr<Policy> {
      return std::make_unique<Llumnix>(parameters);
    },
    .check = Check};

StageRules StagesOf(const Parameters& parameters) {
  const std::string_view choice = parameters.choice("choice");
  StageRules rules = {MigrationChoice::kLastRunning, 1, 0};
  if (choice == "shortest_running") rules.choice = MigrationChoice::kShortestRunning;
  if (choice == "longest_running") rules.choice = MigrationChoice::kLongestRunning;
  if (parameters.choice("stages") == "multi") {
    rules.live_stages = SmallInteger(parameters, "max_stages");
    rules.last_stage_blocks = SmallInteger(parameters, "last_stage_blocks");
  }
  return rules;
}

}  // namespace

const PolicyInfo& LlumnixInfo() { return kInfo; }

Llumnix::Llumnix(const Parameters& parameters)
    : mode_(parameters),
      max_num_seqs_(SmallInteger(parameters, "max_num_seqs")),
      max_num_batched_tokens_(SmallInteger(parameters, "max_num_batched_tokens")),
      reported_(parameters.choice("state") == "reported"),
      migration_(parameters.flag("migration")),
      migration_interval_(parameters.duration("migration_interval")),
      reports_per_migration_(parameters.integer("reports_per_migration")),
      priority_target_tokens_(parameters.integer("priority_target_tokens")),
      scaling_interval_(parameters.duration("scaling_interval")),
      scale_up_threshold_(parameters.number("scale_up_threshold")),
      scale_down_threshold_(parameters.number("scale_down_threshold")),
      freeness_{.defragmentation = parameters.flag("defragmentation"),
                .watermark_permille = parameters.integer("watermark_permille"),
                .priority_target_blocks = 0},
      stages_(StagesOf(parameters)),
      pairing_(parameters.number("migrate_threshold"), freeness_.defragmentation),
      sessions_(kSessions) {}

void Llumnix::OnStart(Context& context) {
  for (const DeviceView& device : context.devices()) {
    const PlaceBatcher places(max_num_seqs_, max_num_batched_tokens_, device.max_step_tokens);
    instances_.push_back(std::make_unique<Instance>(device.id, device.block_tokens, mode_, places));
  }
  live_ = std::make_unique<LiveMigration>(stages_, instances_);
  known_.resize(instances_.size());
  const std::uint32_t block_tokens = context.devices()[0].block_tokens;
  if (block_tokens > 0) freeness_.priority_target_blocks = priority_target_tokens_ / block_tokens;
  // Without KV blocks there is nothing to move, without a link no way.
  migration_ = migration_ && instances_.size() > 1 && block_tokens > 0 &&
               context.services().TransferTime({0}, {1}, 1).has_value();
}

// ---- What is known ----

InstanceState Llumnix::State(const Context& context, DeviceId device) const {
  const Instance& instance = *instances_[device.value];
  if (!reported_) return instance.State(context);
  const DeviceReport& report = known_[device.value];
  return {.total_blocks = report.total_blocks,
          .free_blocks = report.free_blocks,
          .running = report.running,
          .waiting = report.waiting,
          .waiting_blocks = report.waiting_blocks,
          .killed = report.preempted,
          .priority_requests = instance.priority_requests,
          .draining = report.state == DeviceState::kDraining};
}

void Llumnix::OnReport(Context& context, const DeviceReport& report) {
  if (!reported_) return;
  DeviceReport& known = known_[report.id.value];
  devices_known_ += known.id.valid() ? 0 : 1;
  known = report;
  if (!migration_) return;
  const std::int64_t due = reports_per_migration_ * static_cast<std::int64_t>(instances_.size());
  if (++reports_ < due) return;
  reports_ = 0;
  if (devices_known_ == instances_.size()) Migrate(context);
}

void Llumnix::StartTimers(Context& context) {
  Clock& clock = context.clock();
  if (migration_ && !reported_ && !migration_timer_.valid()) {
    migration_timer_ = clock.Arm(context.now() + migration_interval_, kMigrate);
  }
  if (scaling_interval_ > Duration() && !scaling_timer_.valid()) {
    scaling_timer_ = clock.Arm(context.now() + scaling_interval_, kScale);
  }
}

void Llumnix::OnTimer(Context& context, std::uint64_t tag) {
  (tag == kMigrate ? migration_timer_ : scaling_timer_) = {};
  if (requests_ == 0) return;
  if (tag == kMigrate) {
    Migrate(context);
  } else {
    Scale(context);
  }
  StartTimers(context);
}

// ---- Requests come and go ----

DeviceId Llumnix::Freest(const Context& context, bool high_priority) {
  DeviceId best;
  Freeness most(0, 1);
  for (const DeviceView& device : context.devices()) {
    if (!TakesRequests(device)) continue;
    const Freeness freeness = freeness_.ForDispatch(State(context, device.id), high_priority);
    if (best.valid() && !(freeness > most)) continue;
    best = device.id;
    most = freeness;
  }
  return best;
}

Llumnix::Session* Llumnix::SessionOf(std::uint64_t id) {
  return id == 0 ? nullptr : &sessions_[(id * 0x9e3779b97f4a7c15ull >> 32) & (kSessions - 1)];
}

DeviceId Llumnix::Dispatch(const Context& context, RequestId request) {
  const RequestView view = context.request(request);
  Session* const session = SessionOf(view.session());
  if (session != nullptr && session->id == view.session() &&
      TakesRequests(context.device(session->device))) {
    return session->device;
  }
  DeviceId device;
  if (!reported_ || devices_known_ == instances_.size()) {
    device = Freest(context, HasHighPriority(view));
  }
  if (!device.valid()) device = round_robin_.Next(context);
  const DeviceState state = context.device(device).state;
  // None is up: it waits for one that is to come back, as the first is.
  if (state == DeviceState::kOff || state == DeviceState::kDraining) device = {0};
  if (session != nullptr) *session = {view.session(), device};
  return device;
}

void Llumnix::Send(Context& context, RequestId request) {
  const DeviceId device = Dispatch(context, request);
  context.actions().Route(request, device);
  Instance& to = instance(device);
  to.priority_requests += HasHighPriority(context.request(request)) ? 1 : 0;
  const bool first = to.waiting.PushBack(context, request);
  to.engine.OnQueued(context, first);
}

void Llumnix::SendOn(Context& context, DeviceId device) {
  Instance& from = instance(device);
  for (std::size_t left = from.waiting.size(); left > 0; --left) {
    const RequestId request = from.waiting.Head(context);
    from.waiting.PopHead(context);
    from.priority_requests -= HasHighPriority(context.request(request)) ? 1 : 0;
    Send(context, request);
  }
}

DeviceId Llumnix::HomeOf(const Context& context, RequestId request) const {
  const RequestView view = context.request(request);
  for (const auto& instance : instances_) {
    if (instance->waiting.Contains(view)) return instance->engine.device();
  }
  return view.device();
}

void Llumnix::OnArrival(Context& context, RequestId request) {
  Send(context, request);
  ++requests_;
  StartTimers(context);
}

void Llumnix::OnCancel(Context& context, RequestId request, CancelBy) {
  const DeviceId device = HomeOf(context, request);
  OnEnd(context, request, device);
  instance(device).engine.Remove(context, request);
}

void Llumnix::OnEnd(Context& context, RequestId request, DeviceId device) {
  --requests_;
  instance(device).priority_requests -= HasHighPriority(context.request(request)) ? 1 : 0;
  live_->OnEnd(context, request);
}

// ---- Devices ----

void Llumnix::Migrate(Context& context) {
  candidates_.clear();
  for (const DeviceView& device : context.devices()) {
    if (!device.up()) continue;
    const InstanceState state = State(context, device.id);
    candidates_.push_back({.device = device.id,
                           .freeness = freeness_.ForMigration(state),
                           .killed = state.killed > 0,
                           .takes = TakesRequests(device)});
  }
  for (const auto& [from, to] : pairing_.Find(candidates_)) {
    if (!live_->Busy(from) && !live_->Busy(to)) live_->Begin(context, from, to);
  }
}

void Llumnix::Scale(Context& context) {
  double sum = 0, least = std::numeric_limits<double>::infinity();
  std::uint32_t up = 0, wanted = 0;
  for (const DeviceView& device : context.devices()) {
    // One that comes or goes is not in the figures yet, or still.
    if (device.state == DeviceState::kStarting || device.state == DeviceState::kDraining) return;
    wanted += device.state != DeviceState::kOff ? 1 : 0;
    if (device.state != DeviceState::kUp) continue;
    const double freeness = freeness_.ForMigration(State(context, device.id)).value();
    sum += freeness;
    least = std::min(least, freeness);
    ++up;
  }
  if (sum < scale_up_threshold_ * up) {  // never while one has no requests: then it is infinite
    if (wanted < context.devices().size()) context.actions().Scale(wanted + 1);
  } else if (least > scale_down_threshold_ && up > 1) {
    context.actions().Scale(wanted - 1);
  }
}

void Llumnix::OnSlotFree(Context& context, DeviceId device) {
  ContinuousEngine& engine = instance(device).engine;
  if (engine.launched() || !live_->OnBoundary(context, device)) return;
  if (!engine.OnSlotFree(context)) live_->GiveWay(context, device);
}

void Llumnix::OnPlanDone(Context& context, const PlanDone& done) {
  instance(done.device).engine.OnPlanDone(context, done);
  for (const RequestId request : done.finished) OnEnd(context, request, done.device);
}

void Llumnix::OnOperationDone(Context& context, const OperationDone& done) {
  live_->OnOperationDone(context, done);
}

void Llumnix::OnDeviceChange(Context& context, DeviceId device, DeviceChange change) {
  if (change == DeviceChange::kDraining || change == DeviceChange::kRemoved) {
    return SendOn(context, device);
  }
  if (change != DeviceChange::kFailed) return;
  instance(device).engine.OnFailed(context);
  live_->OnFailed(context, device);
}

}  // namespace schedtwin
