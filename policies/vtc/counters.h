// Counters: the virtual token counters, one for each client (tenant): what it was served, weighed
// by price and share. Whole numbers of 2^-20, so that sums do not depend on the order or size of
// their terms. Clients are known from their first request on, in that order, which also breaks
// ties. Shared by the queues of one policy; one thread.
#ifndef SCHEDTWIN_POLICIES_VTC_COUNTERS_H_
#define SCHEDTWIN_POLICIES_VTC_COUNTERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace schedtwin::vtc {

/// Prices of a token, and shares by tenant; those beyond them have a share of 1.
struct Prices {
  std::uint64_t input = 1;
  std::uint64_t output = 2;
  std::vector<std::uint64_t> weights;
};

class Counters {
 public:
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 20;
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

  /// `lift_to_last`: a client that comes while nobody waits is lifted to the one that was last to
  /// leave the queue (the paper); else it is not lifted then (the released code).
  Counters(const Prices& prices, bool lift_to_last)
      : prices_(prices), lift_to_last_(lift_to_last) {}

  /// The client of a tenant; a new one if it is not known.
  std::size_t ClientOf(std::uint32_t tenant) {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (clients_[i].tenant == tenant) return i;
    }
    const std::uint64_t weight = tenant < prices_.weights.size() ? prices_.weights[tenant] : 1;
    clients_.push_back({.tenant = tenant,
                        .input_charge = prices_.input * kOne / weight,
                        .output_charge = prices_.output * kOne / weight});
    return clients_.size() - 1;
  }

  /// A request of it came. One that had none waiting is lifted: what it did not ask for while it
  /// was away is no credit.
  void OnArrival(std::size_t client) {
    Client& come = clients_[client];
    if (come.waiting == 0) {
      std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
      for (const Client& other : clients_) {
        if (other.waiting > 0) least = std::min(least, other.served);
      }
      const bool nobody = least == std::numeric_limits<std::uint64_t>::max();
      if (nobody) least = lift_to_last_ && last_ != kNobody ? clients_[last_].served : 0;
      come.served = std::max(come.served, least);
    }
    ++come.waiting;
  }
  /// One is put back; it never left as far as fairness goes, so nobody is lifted.
  void OnPutBack(std::size_t client) { ++clients_[client].waiting; }
  /// One has left the queue, admitted or over.
  void OnLeft(std::size_t client) {
    --clients_[client].waiting;
    last_ = client;
  }

  void ChargeInput(std::size_t client, std::uint64_t tokens) {
    clients_[client].served += tokens * clients_[client].input_charge;
  }
  void ChargeOutput(std::size_t client, std::uint64_t tokens) {
    clients_[client].served += tokens * clients_[client].output_charge;
  }
  std::uint64_t served(std::size_t client) const { return clients_[client].served; }

 private:
  struct Client {
    std::uint32_t tenant = 0;
    std::uint64_t input_charge = 0;   ///< of a token
    std::uint64_t output_charge = 0;  ///< likewise
    std::uint64_t served = 0;
    std::uint64_t waiting = 0;  ///< requests, on all devices
  };

  Prices prices_;
  bool lift_to_last_;
  std::vector<Client> clients_;  ///< in order of their first requests
  std::size_t last_ = kNobody;   ///< to leave the queue
};

}  // namespace schedtwin::vtc

#endif  // SCHEDTWIN_POLICIES_VTC_COUNTERS_H_
