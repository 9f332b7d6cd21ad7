// The works of the verbs.
#pragma once

#include "../link/node_state.hpp"
#include "work.hpp"

#include <tickwheel/durable/store.hpp>

#include <memory>

namespace tickwheel::durable::postgres {

std::unique_ptr<work> make_join(join_call&, node_state&);
std::unique_ptr<work> make_renew(renew_call&, node_state&);
std::unique_ptr<work> make_bury(bury_call&, node_state&);
std::unique_ptr<work> make_acquire(acquire_call&, node_state&);
std::unique_ptr<work> make_release(release_call&);
std::unique_ptr<work> make_load(load_call&);
std::unique_ptr<work> make_begin(begin_call&, node_state&);
std::unique_ptr<work> make_finish(finish_call&);
std::unique_ptr<work> make_recover(recover_call&, node_state&);
std::unique_ptr<work> make_put(put_call&);
std::unique_ptr<work> make_cancel(cancel_call&);
std::unique_ptr<work> make_revive(revive_call&);
std::unique_ptr<work> make_get(get_call&);
std::unique_ptr<work> make_list(list_call&);
std::unique_ptr<work> make_purge(purge_call&, node_state&);
/// Recovers what a recovery has left because it was not due. Null: nothing is left, or such a work is under way.
std::unique_ptr<work> make_recover_later(node_state&);
/// Changes the beat of this node, so that another node that asks for its name sees that it lives.
std::unique_ptr<work> make_beat(session_number);

}  // namespace tickwheel::durable::postgres
