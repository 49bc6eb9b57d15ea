// Drafts: looked up as a plain search finds them; as long as what they cost and how often they were right say.
#include "schedule/drafts.h"

#include <random>
#include <vector>

#include "support/catch.h"

using namespace qinfer::schedule;

namespace {

/// The same by trying every place and every length.
Draft look_up_plainly(const std::vector<std::int32_t>& tokens, std::uint32_t most) {
  Draft best;
  std::size_t found = 0;
  for (std::size_t end = 2; end < tokens.size(); ++end) {
    std::uint32_t match = 0;
    while (match < 16 && match < end && tokens[end - 1 - match] == tokens[tokens.size() - 1 - match]) ++match;
    if (match >= 2 && match >= best.match) best.match = match, found = end;
  }
  if (best.match == 0 || most == 0) return {};
  best.size = std::min(most, kMaxDraft);
  for (std::size_t i = 0; i < best.size; ++i) best.tokens[i] = tokens[found + i % (tokens.size() - found)];
  return best;
}

/// A step costs 1, each row more `row`.
RowCosts costs_of(double row) {
  RowCosts costs;
  for (int n = 0; n < 3; ++n)
    for (std::uint32_t rows = 1; rows <= RowCosts::kMost; ++rows) costs.learn(rows, 100, 1 + row * (rows - 1));
  return costs;
}

Acceptance acceptance_of(double probability) {
  Acceptance acceptance;
  std::mt19937 random(1);
  for (int n = 0; n < 2000; ++n)
    for (const std::uint32_t match : {2U, 4U, 6U, 10U})
      acceptance.learn(match, std::uniform_real_distribution<>()(random) < probability);
  return acceptance;
}

std::uint32_t given(double probability, double row, std::uint32_t rows = 1) {
  const Acceptance acceptance = acceptance_of(probability);
  std::vector<DraftClaim> claims(rows, {&acceptance, 4, 4});
  share_drafts(claims, rows, 100 * rows, 1000, costs_of(row));
  std::uint32_t all = 0;
  for (const DraftClaim& claim : claims) all += claim.given;
  return all;
}

}  // namespace

TEST_CASE("Drafts: what followed the longest earlier occurrence", "[drafts]") {
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 9, 2, 3, 5, 7, 2, 3};
  const Draft draft = look_up(tokens, 3);
  CHECK((draft.match == 2 && draft.size == 3));
  CHECK((draft.tokens[0] == 5 && draft.tokens[1] == 7 && draft.tokens[2] == 2));  // the latest of equal ones

  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::int32_t> text(random() % 60);
    const std::uint32_t kinds = 1 + random() % 5;
    for (std::int32_t& token : text) token = static_cast<std::int32_t>(random() % kinds);
    const std::uint32_t most = random() % 20;
    const Draft is = look_up(text, most), should = look_up_plainly(text, most);
    INFO("round " << round << ", " << text.size() << " tokens");
    REQUIRE(is.size == should.size);
    if (is.size == 0) continue;
    REQUIRE(is.match == should.match);
    REQUIRE(std::equal(is.tokens.begin(), is.tokens.begin() + is.size, should.tokens.begin()));
  }
}

TEST_CASE("Drafts: as long as they pay", "[drafts]") {
  CHECK(given(0.9, 0.05) == 4);
  CHECK(given(0.9, 2) == 0);
  CHECK(given(0.05, 0.2) == 0);
  CHECK(given(0, 0.01) == 0);
  // A guess that is right half of the time pays where a row costs less than half of a step, as long as that holds.
  CHECK(given(0.5, 0.2) >= 1);
  CHECK(given(0.5, 0.2) < 4);
  CHECK(given(0.5, 0.6) == 0);
  CHECK(given(0.9, 0.05, 8) > 8);

  // Of two the likelier one has the rows.
  const Acceptance good = acceptance_of(0.95), bad = acceptance_of(0.1);
  std::vector<DraftClaim> claims = {{&bad, 4, 8}, {&good, 4, 8}, {}};
  share_drafts(claims, 3, 300, 1000, costs_of(0.15));
  CHECK(claims[0].given == 0);
  CHECK(claims[1].given > 4);
  CHECK(claims[2].given == 0);
  // Not more than a batch has.
  share_drafts(claims, 3, 300, 5, costs_of(0));
  CHECK(claims[0].given + claims[1].given == 2);
  share_drafts(claims, 3, 300, 3, costs_of(0));
  CHECK(claims[0].given + claims[1].given == 0);
  // Nothing is known of an evaluation yet.
  share_drafts(claims, 3, 300, 1000, RowCosts());
  CHECK(claims[0].given + claims[1].given == 0);
}

TEST_CASE("Drafts: costs of evaluations are learned by rows and context", "[drafts]") {
  RowCosts costs;
  CHECK(costs.predict(1, 10) == 0);
  const auto truth = [](std::uint32_t rows, std::uint64_t context) {
    return 0.01 + (rows > 4 ? 0.02 : 0.001 * rows) + 1e-6 * static_cast<double>(context);
  };
  std::mt19937 random(5);
  for (std::uint64_t step = 0; step < 3000; ++step) {
    const std::uint32_t rows = 1 + 2 * (random() % 4);
    const double noise = 1 + 0.05 * (std::uniform_real_distribution<>()(random) - 0.5);
    costs.learn(rows, step, truth(rows, step) * noise * (step % 97 == 0 ? 30 : 1));
  }
  for (const std::uint32_t rows : {1U, 3U, 5U, 7U})
    CHECK(costs.predict(rows, 3000) == Approx(truth(rows, 3000)).epsilon(0.1));
  CHECK(costs.predict(1, 6000) == Approx(truth(1, 6000)).epsilon(0.2));
  // Between and after what was measured.
  CHECK(costs.predict(4, 3000) > costs.predict(3, 3000));
  CHECK(costs.predict(4, 3000) < costs.predict(5, 3000));
  CHECK(costs.predict(40, 3000) > costs.predict(7, 3000));
  costs.learn(0, 1, 1), costs.learn(65, 1, 1), costs.learn(1, 1, -1), costs.learn(1, 1, std::nan(""));
  CHECK(costs.predict(1, 3000) == Approx(truth(1, 3000)).epsilon(0.1));
}
