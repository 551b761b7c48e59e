#include "exec/wall_time.h"

#include <algorithm>
#include <utility>  // before Asio, which forgets it under C++20
// clang-format keeps the blocks apart
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

namespace schedtwin {
namespace {

constexpr Duration kSpinBefore = Duration::Micros(100);
constexpr Duration kLongestSleep = Duration::Millis(50);

}  // namespace

struct WallTimeSource::Reactor {
  using Error = boost::system::error_code;

  explicit Reactor(int descriptor) : incoming(io, descriptor) { Listen(); }
  ~Reactor() { incoming.release(); }  // the mailbox's own

  void Listen() {
    incoming.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](Error error) {
      listening = false;
      if (!error) awake = true;
    });
    listening = true;
  }
  /// Returns at `deadline` or when the descriptor is readable.
  void Sleep(std::chrono::steady_clock::time_point deadline) {
    awake = false;
    if (!listening) Listen();
    timer.expires_at(deadline);
    timer.async_wait([this](Error error) {
      if (!error) awake = true;
    });
    while (!awake) io.run_one();
    timer.cancel();
  }

  boost::asio::io_context io{1};
  boost::asio::steady_timer timer{io};
  boost::asio::posix::stream_descriptor incoming;
  bool listening = false;
  bool awake = false;
};

WallTimeSource::WallTimeSource(const WallClock* clock, Mailbox* mailbox, Wait wait)
    : clock_(clock),
      mailbox_(mailbox),
      wait_(wait),
      reactor_(std::make_unique<Reactor>(mailbox->descriptor())) {}

WallTimeSource::~WallTimeSource() = default;

Time WallTimeSource::Advance(Time next) {
  Time now = clock_->Now();
  const Time give_up = now + kLongestSleep;
  while (!mailbox_->ready() && now < next && now < give_up) {
    Time wake = give_up;
    if (next <= give_up) wake = wait_ == Wait::kSpin ? next - kSpinBefore : next;
    if (now < wake) reactor_->Sleep(clock_->At(wake));
    now = clock_->Now();
  }
  if (mailbox_->Deliver()) now = clock_->Now();       // not before what it brought
  last_ = std::max(last_ + Duration::Nanos(1), now);  // no instant twice: a replay tells them apart
  return last_;
}

}  // namespace schedtwin
