#include "world.hpp"

#include <utility>

namespace durable_model {

namespace {

class memory final : public backend {
 public:
  explicit memory(std::uint16_t partitions) : database_{std::make_shared<durable::memory_database>(partitions)} {}
  std::unique_ptr<durable::store> make_store() override { return durable::memory_store(database_); }
  nanos now() const override { return count(database_->now()); }
  void shift(nanos by) override { database_->shift_clock(duration(by)); }
  void advance(tickwheel::manual_driver& time, nanos by) override { time.advance(duration(by)); }
  durable::memory_database* faults() noexcept override { return database_.get(); }

 private:
  std::shared_ptr<durable::memory_database> database_;
};

}  // namespace

std::unique_ptr<backend> memory_backend(std::uint16_t partitions) { return std::make_unique<memory>(partitions); }

comparison run(choices decide, std::uint64_t operations, const make_backend& make, bool keeps_trace) {
  world w{decide, make, keeps_trace};
  w.run(operations);
  return w.result();
}

comparison run_seed(std::uint64_t seed, std::uint64_t operations, const make_backend& make, bool keeps_trace) {
  comparison c = run(choices{seed}, operations, make, keeps_trace);
  if (c.mismatch) c.mismatch = "seed " + std::to_string(seed) + ": " + *c.mismatch;
  return c;
}

}  // namespace durable_model
