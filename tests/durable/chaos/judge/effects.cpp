#include "effects.hpp"

namespace chaos {

void effects_judge::note(const external_start& start, std::string_view answer) {
  answers_[start.token] = answer;
  id_of_[start.key] = start.id;
}

void effects_judge::judge(const database& in, std::vector<std::string>& broken) {
  const sql_result keys = in.run("select key from tickwheel.effects order by key, token");
  const sql_result tokens = in.run("select token from tickwheel.effects order by key, token");
  if (!keys.is_ok() || !tokens.is_ok()) return broken.push_back("the table of effects cannot be read: " + keys.text);
  effects_ = keys.rows.size();
  std::unordered_set<std::string> seen;
  std::unordered_map<std::string, std::size_t> of_token;
  std::unordered_set<std::string> with_effect;
  for (std::size_t i = 0; i != keys.rows.size(); ++i) {
    const std::string& key = keys.rows[i];
    ++of_token[tokens.rows[i]];
    if (const auto known = id_of_.find(key); known != id_of_.end()) with_effect.insert(known->second);
    if (seen.insert(key).second) continue;
    ++twice_;
    broken.push_back("an effect has happened twice: " + key + ", the second time with the token " + tokens.rows[i]);
  }
  for (const auto& [token, answer] : answers_) {
    const std::size_t count = of_token.contains(token) ? of_token[token] : 0;
    if (answer == "finished" && count != 1)
      broken.push_back("a finish was confirmed, and has " + std::to_string(count) + " effects: token " + token);
    if ((answer == "stale" || answer == "unavailable") && count != 0)
      broken.push_back("a finish was rolled back, and has an effect: token " + token);
  }
  for (const std::string& id : finished_)
    if (!with_effect.contains(id)) broken.push_back("a task is finished without its effect: " + id);
}

}  // namespace chaos
