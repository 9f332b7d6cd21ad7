// The ceiling of postgres_store: its statements on bare libpq, with as many requests in flight as the scheduler has.
#pragma once

#include "raw_store.hpp"

#include <tickwheel/durable/postgres.hpp>

#include <memory>
#include <string>

namespace tickwheel::bench {

/// Writes into the tables of the store. Its starts are those of the nodes that own the partitions; the nodes must pause meanwhile.
std::unique_ptr<raw_store> make_raw_postgres(const std::string& conninfo, const durable::postgres_options&);

}  // namespace tickwheel::bench
