# frozen_string_literal: true

require "bigdecimal"
require "tmpdir"
require_relative "test_helper"

# On an SQLite file. What all engines do alike is tried on servers, too: test/servers/.
class StoreTest < Minitest::Test
  # Passes for the number of its seconds, as ActiveSupport::Duration does.
  class Span
    def initialize(value) = @value = value

    def is_a?(kind) = super || @value.is_a?(kind)

    def real? = @value.real?

    def to_r = @value.to_r
  end

  def setup
    @folder = Dir.mktmpdir("leases")
    @url = "sqlite:#{@folder}/leases.db"
    @leases = LeaseMachines.open(@url)
  end

  def teardown
    @leases.close
    FileUtils.rm_rf(@folder)
  end

  def test_the_walk_through
    before = LeaseMachines.now
    first = @leases.acquire("job", ttl: 60)

    assert_predicate first, :granted?
    assert_includes (before + 60)..(LeaseMachines.now + 60), first.lease.expires_at
    assert_equal rejected(:occupied), @leases.acquire("job", ttl: 60)

    again = @leases.renew("job", owner: first.lease.owner, token: first.lease.token, ttl: 90, epoch: first.epoch)

    assert_equal [:renewed, first.lease.token], [again.status, again.lease.token]
    assert_operator again.lease.expires_at, :>=, before + 90
    assert_equal released, give_back(first)
    assert_equal released, give_back(first), "the same lease once more: an echo"

    second = @leases.acquire("job", ttl: 60)

    assert_operator second.lease.token, :>, first.lease.token
    refute_equal first.lease.owner, second.lease.owner
    assert_equal released, give_back(first), "still an echo: it takes nothing from whoever holds it now"
    assert_equal second.lease.token, @leases.show("job").occupant.token
    assert_equal rejected(:wrong_owner), @leases.renew("job", owner: 1, token: second.lease.token, ttl: 60)
    assert_equal rejected(:stale_token), @leases.renew("job", owner: second.lease.owner, token: 1, ttl: 60)
  end

  def test_a_decision_says_who_is_in_the_way
    held = @leases.acquire("job", ttl: 60, label: "a label", identity: "web-1")
    occupant = @leases.acquire("job", ttl: 60).occupant

    assert_equal [held.lease.owner, held.lease.token, "a label", "web-1", false],
                 [occupant.owner, occupant.token, occupant.label, occupant.identity, occupant.retained]
    assert_in_delta 60, occupant.remaining, 30
    assert_operator occupant.held_for, :>=, 0
    give_back(held)
    vacated = @leases.renew("job", owner: held.lease.owner, token: held.lease.token, ttl: 60).vacated

    assert_equal Vacated.new(held.lease.token, held.lease.owner, :released), vacated
    assert_nil @leases.renew("other", owner: 1, token: 1, ttl: 60).vacated
  end

  def test_values_of_a_store_are_shareable_between_ractors
    held = @leases.acquire("job", ttl: 60, label: "a label")
    values = [held, @leases.acquire("job", ttl: 60), @leases.show("job"), @leases.history("job"), @leases.doctor]

    values.flatten.each { |value| assert Ractor.shareable?(value), value.inspect }
  end

  def test_what_the_core_says_of_odd_requests
    held = @leases.acquire("job", ttl: 60)

    assert_equal rejected(:invalid_ttl), @leases.acquire("other", ttl: 0)
    assert_equal rejected(:vacant), @leases.renew("other", owner: 1, token: 7, ttl: 1)
    assert_equal rejected(:stale_token), @leases.renew("job", owner: held.lease.owner, token: 0, ttl: 60)
    assert_equal rejected(:stale_token), @leases.release("job", owner: held.lease.owner, token: 0)
    assert_equal rejected(:stale_token), @leases.revoke("job", expect: 0)
  end

  # reinhardt-web#2719, node-redlock#120: ttls of less than a second became 0, or an error.
  def test_a_lease_ends_by_the_stores_clock
    lease = @leases.acquire("job", ttl: 1.0).lease
    @leases.wait("job", limit: 30)

    assert_equal rejected(:expired), @leases.renew("job", owner: lease.owner, token: lease.token, ttl: 1)
    assert_predicate @leases.acquire("job", ttl: 60), :granted?
    assert_equal :expired, @leases.history("job").last.outcome
  end

  def test_lengths_of_time
    @leases.acquire("job", ttl: 60)
    [1.5, 3r / 2, BigDecimal("1.5"), Span.new(1.5), Span.new(3r / 2)].each_with_index do |ttl, index|
      before = LeaseMachines.now
      until_then = @leases.acquire("job-#{index}", ttl: ttl).lease.expires_at

      assert_includes (before + 1.5)..(LeaseMachines.now + 1.5), until_then
    end
    NOT_NUMBERS.each { |ttl| assert_raises(TypeError) { @leases.acquire("job", ttl: ttl) } }
    [-1, Float::NAN, Float::INFINITY].each { |ttl| assert_raises(ArgumentError) { @leases.acquire("job", ttl: ttl) } }
  end

  def test_a_ttl_above_what_the_store_grants_is_refused
    error = assert_raises(Refused) { @leases.acquire("job", ttl: 86_401) }

    assert_equal :request, error.kind
    assert_match(/24h/, error.message)
  end

  def test_names
    names = ["a", "A", "a ", "é", "e\u0301", "x" * 255, "☃ \n"]
    names.each { |name| assert_predicate @leases.acquire(name, ttl: 60), :granted? }
    latin = "\xE9".dup.force_encoding("ISO-8859-1")

    assert_equal :occupied, @leases.acquire(latin, ttl: 60).reason, "it is é in UTF-8"
    assert_equal names.map(&:b).sort, @leases.list.map { |found| found.resource.b }
    ["", "x" * 256, "a\0b", "\xFF", "\xFF".b].each do |name|
      assert_raises(ArgumentError, name.inspect) { @leases.acquire(name, ttl: 60) }
    end
    [nil, :job, 7].each { |name| assert_raises(TypeError) { @leases.acquire(name, ttl: 60) } }
  end

  def test_owners_attempts_and_epochs
    owner = LeaseMachines.fresh_owner
    lease = @leases.acquire("job", ttl: 60, owner: owner).lease

    assert_equal owner, lease.owner
    assert_equal lease.token, @leases.acquire("job", ttl: 60, owner: owner).lease.token, "an echo of the first attempt"
    assert_equal rejected(:occupied), @leases.acquire("job", ttl: 60, owner: owner, attempt: 2)
    newer = @leases.reacquire("job", owner: owner, ttl: 60, attempt: 3).lease

    assert_operator newer.token, :>, lease.token
    assert_equal newer.token, @leases.acquire("job", ttl: 60, owner: owner, attempt: 1).lease.token, "an old one's echo"
    assert_equal released, @leases.withdraw("job", owner: owner)
    error = assert_raises(NotDone) { @leases.acquire("job", ttl: 60, owner: owner, attempt: 9) }
    assert_equal :superseded, error.kind
    assert_equal :rejected, @leases.withdraw("other", owner: owner).status
    assert_raises(TypeError) { @leases.reacquire("job", owner: nil, ttl: 60, attempt: 1) }
    assert_raises(ArgumentError) { @leases.acquire("job", ttl: 60, epoch: "not one") }
  end

  def test_an_interrupted_answer_that_is_repeated
    owner = LeaseMachines.fresh_owner
    @leases.acquire("job", ttl: 60, owner: owner)

    assert_predicate @leases.reacquire("job", owner: owner, ttl: 60, attempt: 2), :granted?
  end

  def test_revoke
    held = @leases.acquire("job", ttl: 60).lease
    burnt = @leases.revoke("job", expect: held.token, reason: "it hung")

    assert_operator burnt, :>, held.token
    decision = @leases.renew("job", owner: held.owner, token: held.token, ttl: 60)

    assert_equal %i[vacant revoked], [decision.reason, decision.vacated.how]
    assert_equal rejected(:vacant), @leases.revoke("job", expect: held.token)
    assert_operator @leases.revoke("job"), :>, burnt
    assert_includes @leases.history("job").map(&:reason), "it hung"
  end

  def test_show_and_list
    unseen = @leases.show("job")

    assert_equal Inspection.new("job", @leases.epoch, nil, nil, nil, nil), unseen
    refute_predicate unseen, :held?
    held = @leases.acquire("job", ttl: 60)
    shown = @leases.show("job")

    assert_predicate shown, :held?
    assert_equal [held.lease.token, held.lease.token, held.epoch],
                 [shown.last_issued, shown.occupant.token, shown.epoch]
    @leases.release("job", owner: held.lease.owner, token: held.lease.token, result: :good)
    good = @leases.show("job").last_good

    assert_equal [held.lease.token, held.lease.owner, nil, nil], [good.token, good.owner, good.label, good.once]
    assert_in_delta Time.now, good.at, 60
    assert_predicate good.at, :utc?
    @leases.acquire("other", ttl: 60)

    assert_equal %w[job other], @leases.list.map(&:resource)
    assert_equal %w[other], @leases.list("o").map(&:resource)
  end

  def test_history_and_prune
    3.times { give_back(@leases.acquire("job", ttl: 60)) }
    rows = @leases.history("job")

    assert_equal 3, rows.size
    assert_equal rows.map(&:token).sort.reverse, rows.map(&:token)
    assert_equal [[:released, nil, nil, 0]], rows.map { [_1.outcome, _1.result, _1.reason, _1.renewals] }.uniq
    rows.each { |row| assert_operator row.granted_at, :<=, row.ends_at }
    assert_equal 2, @leases.history("job", limit: 2).size
    assert_equal 0, @leases.prune(older_than: 3600).resources
    pruned = @leases.prune(older_than: 0)

    assert_equal 1, pruned.resources
    assert_operator pruned.floor, :>=, rows.first.token
    assert_operator @leases.acquire("job", ttl: 60).lease.token, :>, pruned.floor
  end

  def test_a_new_epoch_ends_every_lease
    held = @leases.acquire("job", ttl: 60)
    before = @leases.epoch
    now = @leases.open_epoch(instead_of: before, old_holders_are_dead: true, above: held.lease.token)

    assert_match(/\A\h{16}\z/, now)
    refute_equal before, now
    error = assert_raises(NewEpoch) do
      @leases.renew("job", owner: held.lease.owner, token: held.lease.token, ttl: 60, epoch: held.epoch)
    end
    assert_equal [:new_epoch, now], [error.kind, error.current]
    assert_operator @leases.acquire("job", ttl: 60).lease.token, :>, held.lease.token
    assert_equal now, @leases.open_epoch(instead_of: before), "another one has opened it"
  end

  # A person's slip ends nothing. A program that keeps what it was granted is believed: what it shows was lost.
  def test_a_token_that_was_never_issued
    held = @leases.acquire("job", ttl: 60)
    before = @leases.epoch
    wrong = { owner: held.lease.owner, token: held.lease.token + 1 }

    assert_equal rejected(:stale_token), @leases.renew("job", ttl: 60, **wrong)
    assert_equal rejected(:stale_token), @leases.release("job", **wrong)
    assert_equal rejected(:stale_token), @leases.revoke("job", expect: wrong[:token])
    assert_equal rejected(:vacant), @leases.renew("jbo", ttl: 60, **wrong)
    assert_equal before, @leases.epoch
    assert_predicate @leases.renew("job", owner: held.lease.owner, token: held.lease.token, ttl: 60), :renewed?
    @leases.release("job", epoch: before, **wrong)

    refute_equal before, @leases.epoch
  end

  def test_doctor_and_engine
    assert_equal "sqlite", @leases.engine
    findings = @leases.doctor

    assert_includes findings.map(&:check), "integrity"
    findings.each { |finding| assert_includes %i[fine note warning error], finding.severity }
  end

  def test_options_and_the_block
    value = LeaseMachines.open("sqlite::memory:", timeout: Span.new(2), max_ttl: 1.5, history: 7, create: true) do |leases|
      assert_raises(Refused) { leases.acquire("job", ttl: 2) }
      assert_predicate leases.acquire("job", ttl: 1.5), :granted?
      :value
    end

    assert_equal :value, value
    assert_predicate LeaseMachines.open("#{@url}?timeout=5s", max_ttl: "1h", single_host: true), :itself
    { nonsense: 1, timeout: "soon", max_ttl: -1, history: "many" }.each do |name, setting|
      error = assert_raises(ConfigurationError) { LeaseMachines.open(@url, name => setting) }
      assert_match(/#{name}|escape/, error.message)
    end
    assert_raises(TypeError) { LeaseMachines.open(@url, timeout: Object.new) }
  end

  def test_urls_that_are_none
    [nil, "", "leases.db", "nonsense:x", "sqlite:"].each do |url|
      error = assert_raises(ConfigurationError, url.inspect) { LeaseMachines.open(url) }
      assert_equal :configuration, error.kind
      refute_empty error.message
    end
    assert_raises(TypeError) { LeaseMachines.open(:"sqlite:x") }
    error = assert_raises(ConfigurationError) { LeaseMachines.open("postgres://me:secret@h/x?nonsense=1") }
    refute_match(/secret/, error.full_message(highlight: false))
  end

  def test_migrate_and_what_is_not_set_up
    assert_equal :up_to_date, LeaseMachines.migrate(@url)
    other = "sqlite:#{@folder}/other.db"
    error = assert_raises(Refused) { LeaseMachines.open(other, create: false) }

    assert_equal :not_set_up, error.kind
    assert_equal :set_up, LeaseMachines.migrate(other, timeout: 1)
    assert_predicate LeaseMachines.open(other, create: false).acquire("job", ttl: 1), :granted?
  end

  # What each of them has as any Data.
  def test_answers_are_data
    now = Time.now.utc
    { Occupant => [1, 2, 0.5, 1.5, false, "a label", nil], Vacated => [2, 1, :withdrawn], End => [2, 1, nil, "a key", now],
      Inspection => ["job", "0" * 16, 2, nil, nil, nil], Pruned => [1, 2, 3], Finding => [:note, "file", "fine", nil],
      HistoryEntry => [2, 1, nil, nil, now, now, 0, now, :held, :good, "because"] }.each do |kind, values|
      answer = kind.new(*values)

      assert_equal answer, kind[*values]
      assert_equal values, kind.members.map { |member| answer.public_send(member) }
      assert_equal kind.members.zip(values).to_h, answer.to_h
      assert_predicate answer, :frozen?
    end
  end

  def test_closed
    leases = LeaseMachines.open(@url)
    leases.close

    assert_nil leases.close
    error = assert_raises(ConfigurationError) { leases.acquire("job", ttl: 1) }
    assert_match(/closed/, error.message)
  end

  def test_it_neither_is_copied_nor_shows_its_url
    assert_raises(TypeError) { @leases.dup }
    assert_raises(TypeError) { @leases.clone }
    assert_raises(NoMethodError) { Store.new }
    assert_raises(TypeError) { Marshal.dump(@leases) }
    assert_equal ["#<LeaseMachines::Store>"] * 2, [@leases.inspect, @leases.to_s]
  end

  def test_many_threads_and_one_holder
    holders = Array.new(8) { Thread.new { @leases.acquire("job", ttl: 60) } }.map(&:value)

    assert_equal 1, holders.count(&:granted?)
    assert_equal [:occupied], holders.reject(&:granted?).map(&:reason).uniq
  end

  # The thread that waits lets others run.
  def test_other_threads_run_meanwhile
    @leases.acquire("job", ttl: 60)
    waiting = Thread.new { @leases.wait("job", limit: 60) }
    Thread.pass until waiting.status == "sleep"

    assert_equal "sleep", waiting.status
  ensure
    waiting&.kill&.join
  end

  private

  def give_back(decision)
    @leases.release("job", owner: decision.lease.owner, token: decision.lease.token)
  end
end
