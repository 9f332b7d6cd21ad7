// The functions that programs call in their own transactions.
#pragma once

namespace tickwheel::durable::postgres {

/// Makes tickwheel_schedule, tickwheel_cancel and tickwheel_done. SCHEMA stands for the schema.
extern const char* const client_functions;

}  // namespace tickwheel::durable::postgres
