#include "policies/fastserve/kv_swapper.h"

#include <algorithm>

namespace schedtwin {

KvSwapper::KvSwapper(const Context& context, DeviceId device, bool swap)
    : device_(device),
      swaps_(swap && context.device(device).host_blocks > 0 &&
             context.services().TransferTime(device, device, 1).has_value()) {}

std::uint32_t KvSwapper::BlocksUnderWay(OperationKind kind) const {
  std::uint32_t blocks = 0;
  for (const Copy& copy : copies_) blocks += copy.kind == kind ? copy.blocks : 0;
  return blocks;
}

std::uint32_t KvSwapper::AvailableBlocks(const Context& context) const {
  const DeviceView& view = context.device(device_);
  return view.free_blocks + view.fenced_blocks + BlocksUnderWay(OperationKind::kSwapOut);
}

std::uint32_t KvSwapper::AvailableHostBlocks(const Context& context) const {
  return context.device(device_).host_free_blocks + BlocksUnderWay(OperationKind::kSwapIn);
}

std::uint32_t KvSwapper::HeldBlocks(const RequestView& request) {
  const bool moving = request.state() == RequestState::kMoving;
  const bool comes_in = moving && request.tier() == Tier::kHost;
  const bool stays = !moving && request.tier() == Tier::kDevice;
  return comes_in || stays ? request.owned_blocks() : 0;
}

bool KvSwapper::CanPutOut(const RequestView& request) {
  return request.state() == RequestState::kWaiting && request.tier() == Tier::kDevice &&
         request.owned_blocks() > 0;
}

void KvSwapper::PutOut(Context& context, RequestId request) {
  const std::uint32_t blocks = context.request(request).owned_blocks();
  if (swaps_ && blocks <= context.device(device_).host_free_blocks &&
      context.actions().Preempt(request, PreemptMode::kSwap) == Refusal::kNone) {
    copies_.push_back({request, OperationKind::kSwapOut, blocks});
    return;
  }
  context.actions().Preempt(request, PreemptMode::kRecompute);
}

bool KvSwapper::BringIn(Context& context, RequestId request) {
  const std::uint32_t blocks = context.request(request).owned_blocks();
  if (blocks > context.device(device_).free_blocks) return false;
  TransferSpec back;
  back.request = request;
  back.from = back.to = device_;
  back.from_tier = Tier::kHost;
  if (context.actions().Transfer(back).refusal != Refusal::kNone) return false;
  copies_.push_back({request, OperationKind::kSwapIn, blocks});
  return true;
}

void KvSwapper::OnDone(const OperationDone& done) {
  std::erase_if(copies_, [&](const Copy& copy) {
    return copy.request == done.request && copy.kind == done.kind;
  });
}

}  // namespace schedtwin
