#include "scenario.hpp"

#include "../model/world/choices.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace simulation {

namespace {

using durable_model::choices;

constexpr std::array kinds{"schedule", "cancel", "revive", "get",   "finish", "refinish", "start",   "kill",
                           "power",    "close",  "drain",  "pause", "resume", "stop",     "suspend", "continue",
                           "cut",      "heal",   "slow",   "reset", "lose",   "crash",    "restore", "clock"};

// name, field, and the unit of its text
struct option {
  const char* name;
  nanos scenario::*time = nullptr;
  unsigned scenario::*number = nullptr;
};
constexpr std::array options{
    option{"nodes", nullptr, &scenario::nodes},
    option{"partitions", nullptr, &scenario::partitions},
    option{"lease", &scenario::lease},
    option{"poll", &scenario::poll},
    option{"window", &scenario::window},
    option{"timeout", &scenario::timeout},
    option{"keep", &scenario::keep},
    option{"running", nullptr, &scenario::running},
    option{"loaded", nullptr, &scenario::loaded},
    option{"attempts", nullptr, &scenario::attempts},
    option{"patience", &scenario::patience},
    option{"delay", &scenario::delay},
    option{"jitter", &scenario::jitter},
    option{"commit", &scenario::commit},
    option{"until", &scenario::until},
};

class maker {
 public:
  maker(std::uint64_t seed, unsigned nodes) : decide_{seed} {
    out_.seed = seed;
    out_.nodes = nodes != 0 ? nodes : 3 + static_cast<unsigned>(decide_.below(5));
  }

  scenario make() {
    set_options();
    // each seed has its own mixture, so that rare combinations come, too
    for (bool& may : may_) may = decide_.below(2) == 0;
    const auto orders = 30 + decide_.below(60);
    for (std::size_t i = 0; i != orders; ++i) order();
    const auto faults = 3 + decide_.below(15);
    for (std::size_t i = 0; i != faults; ++i) fault();
    std::stable_sort(out_.events.begin(), out_.events.end(),
                     [](const event& a, const event& b) { return a.at < b.at; });
    return std::move(out_);
  }

 private:
  void set_options() {
    scenario& o = out_;
    o.partitions = decide_.pick<unsigned>({1, 4, 8, 16});
    o.lease = decide_.pick<nanos>({500 * ms, second, 2 * second, 10 * second});
    o.poll = o.lease / decide_.pick<nanos>({4, 8, 16});
    o.window = o.poll * decide_.pick<nanos>({2, 4, 8});
    o.timeout = o.lease * decide_.pick<nanos>({1, 2, 4}) / 2;
    o.keep = o.lease * decide_.pick<nanos>({4, 40, 400});
    o.running = decide_.pick<unsigned>({1, 4, 64});
    o.loaded = decide_.pick<unsigned>({2, 20, 1000});
    o.attempts = decide_.pick<unsigned>({1, 2, 4, 8});
    o.patience = o.lease * decide_.pick<nanos>({1, 2, 4, 8}) / 4;
    o.delay = decide_.pick<nanos>({100 * us, ms, 5 * ms});
    o.jitter = decide_.pick<nanos>({100 * us, 2 * ms, 20 * ms});
    o.commit = decide_.pick<nanos>({0, ms, 10 * ms});
    o.until = o.lease * static_cast<nanos>(10 + decide_.below(15));
    for (unsigned n = 0; n != o.nodes; ++n)
      o.drift.push_back(decide_.pick<std::int64_t>({0, 0, 30, -30, 500, -500, 20'000, -20'000}));
    ids_ = 4 + decide_.below(16);
  }

  nanos some_time() { return static_cast<nanos>(decide_.up_to(static_cast<std::uint64_t>(out_.until / ms))) * ms; }
  unsigned some_node() { return static_cast<unsigned>(decide_.below(out_.nodes)); }
  void add(nanos at, event_kind kind, unsigned node, std::int64_t a = 0, std::string word = {}) {
    out_.events.push_back({at / ms * ms, kind, node, 0, a, 0, {}, std::move(word)});  // as in the text
  }

  void order() {
    event e;
    e.at = some_time();
    e.node = some_node();
    std::string id{"t"};
    id.append(std::to_string(decide_.below(ids_)));
    e.id = std::move(id);
    e.number = ++last_number_;
    switch (decide_.below(10)) {
      case 0:
        e.kind = event_kind::cancel;
        break;
      case 1:
        e.kind = decide_.below(2) == 0 ? event_kind::revive : event_kind::get;
        break;
      case 2:
        e.kind = decide_.below(2) == 0 ? event_kind::finish : event_kind::refinish;
        break;
      default:
        e.kind = event_kind::schedule;
        e.a = (e.at + static_cast<nanos>(
                          decide_.up_to(static_cast<std::uint64_t>(out_.lease * decide_.pick<nanos>({1, 2, 8}) / 2)))) /
              ms;
        if (decide_.one_in(8)) e.b = out_.lease / ms * decide_.pick<nanos>({1, 3, 12}) / 4;
        e.word = decide_.one_in(4) ? "replace/" : "keep/";
        e.word += plan();
    }
    out_.events.push_back(std::move(e));
  }

  // as in the crash harness; (k) kills the process
  std::string plan() {
    std::string letters;
    const auto length = 1 + decide_.below(4);
    for (std::size_t i = 0; i != length; ++i)
      letters += decide_.pick({'d', 'd', 'd', 'd', 'D', 'D', 'l', 'l', 'l', 'f', 'r', 'n',
                               decide_.one_in(4) ? 'k' : 'D', decide_.one_in(4) ? 'b' : 'd'});
    return letters;
  }

  void fault() {
    const nanos at = some_time();
    const unsigned n = some_node();
    // of a moment, around the lease, or of several leases
    const nanos share = static_cast<nanos>(decide_.up_to(1000));
    const nanos lasts =
        decide_.pick<nanos>({out_.lease / 10, out_.lease, 2 * out_.lease, 4 * out_.lease}) * share / 1000;
    const std::size_t kind = decide_.below(may_.size());
    if (!may_[kind]) return;
    switch (kind) {
      case 0:
        add(at, event_kind::kill, n, 0, decide_.one_in(3) ? "begin" : "");
        return add(at + lasts, event_kind::start, n);
      case 1:
        add(at, event_kind::power, n, decide_.up_to(1) != 0 ? 1 : 0);
        return add(at + lasts, event_kind::start, n);
      case 2:
        add(at, decide_.below(2) == 0 ? event_kind::close : event_kind::drain, n);
        return add(at + lasts + out_.lease / 2, event_kind::start, n);
      case 3:
        add(at, event_kind::stop, n, 0, decide_.one_in(2) ? "begin" : "");
        return add(at + lasts, event_kind::go_on, n);
      case 4:
        add(at, event_kind::suspend, n);
        return add(at + lasts, event_kind::go_on, n);
      case 5:
      case 6:
        add(at, event_kind::cut, n, 0, decide_.pick({"up", "down", "both"}));
        return add(at + lasts, event_kind::heal, n);
      case 7:
        add(at, event_kind::slow, n, lasts / ms / 4);
        return add(at + lasts, event_kind::slow, n, 0);
      case 8:
        return add(at, event_kind::reset, n);
      case 9:
        return add(at, event_kind::lose, n, static_cast<std::int64_t>(decide_.below(3)),
                   decide_.below(2) == 0 ? "up" : "down");
      case 10:
        add(at, event_kind::crash, 0, decide_.up_to(1) != 0 ? 1 : 0);
        return add(at + lasts / 2, event_kind::restore, 0);
      case 11:
        return add(at, event_kind::clock, 0,
                   decide_.pick<nanos>({20, -20, 1000, -1000, 5000, -5000, 3'600'000, -3'600'000}));
      default:
        add(at, event_kind::pause, n);
        return add(at + lasts, event_kind::resume, n);
    }
  }

  choices decide_;
  scenario out_;
  std::size_t ids_ = 8;
  std::uint32_t last_number_ = 0;
  std::array<bool, 13> may_{};
};

}  // namespace

scenario make_scenario(std::uint64_t seed, unsigned nodes) { return maker{seed, nodes}.make(); }

std::string to_text(const scenario& s) {
  std::ostringstream out;
  out << "seed " << s.seed << '\n';
  for (const option& o : options) {
    out << o.name << ' ';
    if (o.time != nullptr)
      out << s.*o.time / us << "us\n";
    else
      out << s.*o.number << '\n';
  }
  out << "drift";
  for (const std::int64_t d : s.drift) out << ' ' << d;
  out << '\n';
  for (const event& e : s.events)
    out << e.at / ms << ' ' << kinds.at(static_cast<std::size_t>(e.kind)) << ' ' << e.node << ' ' << e.number << ' '
        << e.a << ' ' << e.b << ' ' << (e.id.empty() ? "-" : e.id) << ' ' << (e.word.empty() ? "-" : e.word) << '\n';
  return out.str();
}

namespace {

bool read_option(scenario& s, const std::string& name, std::istringstream& in) {
  if (name == "seed") return static_cast<bool>(in >> s.seed);
  if (name == "drift") {
    s.drift.clear();
    for (std::int64_t d = 0; in >> d;) s.drift.push_back(d);
    return in.eof();
  }
  for (const option& o : options) {
    if (name != o.name) continue;
    if (o.number != nullptr) return static_cast<bool>(in >> s.*o.number);
    std::string unit;
    if (!(in >> s.*o.time >> unit) || unit != "us") return false;
    s.*o.time *= us;
    return true;
  }
  return false;
}

bool read_event(scenario& s, const std::string& first, std::istringstream& in) {
  event e;
  std::string kind;
  std::istringstream{first} >> e.at;
  e.at *= ms;
  if (!(in >> kind >> e.node >> e.number >> e.a >> e.b >> e.id >> e.word)) return false;
  const auto known = std::find(kinds.begin(), kinds.end(), kind);
  if (known == kinds.end()) return false;
  e.kind = static_cast<event_kind>(known - kinds.begin());
  if (e.id == "-") e.id.clear();
  if (e.word == "-") e.word.clear();
  s.events.push_back(std::move(e));
  return true;
}

}  // namespace

std::optional<scenario> from_text(std::string_view text, std::string& why) {
  scenario s;
  std::istringstream lines{std::string{text}};
  std::string line;
  for (unsigned number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream in{line};
    std::string first;
    in >> first;
    const bool is_event = first.find_first_not_of("0123456789") == std::string::npos;
    if (is_event ? read_event(s, first, in) : read_option(s, first, in)) continue;
    why = "line " + std::to_string(number) + " is invalid: " + line;
    return std::nullopt;
  }
  if (s.nodes == 0 || s.drift.size() != s.nodes) {
    why = "drift has " + std::to_string(s.drift.size()) +
          " numbers; it must have one for each of the nodes, which are at least 1";
    return std::nullopt;
  }
  for (const event& e : s.events) {
    if (e.node < s.nodes) continue;
    why = "an event names node " + std::to_string(e.node) + "; there are " + std::to_string(s.nodes);
    return std::nullopt;
  }
  return s;
}

}  // namespace simulation
