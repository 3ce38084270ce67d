# frozen_string_literal: true

require "timeout"
require_relative "test_helper"
require_relative "support/machine_ids"

class MachineIdTest < Minitest::Test
  include MachineIds

  # Passes for ActiveSupport's, of which this is all that is used.
  module Notifications
    SEEN = Thread::Queue.new

    def self.instrument(name, payload) = SEEN << [name, payload]
  end

  def test_ids_of_every_kind_and_width
    start(MachineId::Fixed.new(7))
    keys = { 64 => "k" * 16, 96 => "k" * 18, 128 => "k" * 32 }

    assert_equal 7, @ids.machine_id
    [64, 96, 128].each do |bits|
      factories = [@ids.counter(bits: bits), @ids.sortable(bits: bits), @ids.encrypted(key: keys[bits], bits: bits)]
      made = factories.map { |factory| [factory.next_id, *factory.next_batch(200)] }

      assert_equal [bits] * 3, factories.map(&:bits)
      plain = [*made[0], *made[1], *made[2].map { |id| MachineId.decrypt(id, key: keys[bits], bits: bits) }]

      assert_equal 603, plain.uniq.size
      assert_equal [made[0].sort, made[1].sort], made.first(2)
      assert_equal made[2].first, MachineId.encrypt(plain[402], key: keys[bits], bits: bits)
      plain.each do |id|
        parts = MachineId::Layout.default(bits: bits).decode(id)

        assert_equal 7, parts.machine_id
        assert_in_delta Time.now.to_f, parts.time.to_f, 60
        assert_operator id, :<, 2**bits
      end
    end
  end

  def test_next_id_of_the_process
    ids = start(MachineId::Fixed.new(3))

    assert_same ids, MachineId.current
    assert_operator MachineId.next_id, :<, MachineId.next_id
    assert_equal ids.next_batch(5000).size, ids.next_batch(5000).uniq.size
    assert_equal [], ids.next_batch(0)
    assert_raises(TypeError) { ids.next_batch(1.5) }
    assert_raises(RangeError) { ids.next_batch(-1) }
    [1_000_001, (2**64) - 1].each do |count|
      assert_match(/at most 1000000 .*not #{count}/, assert_raises(ArgumentError) { ids.next_batch(count) }.message)
    end
  end

  # SnowflakeId.AutoRegister#2, #3; imadcn/idworker#4: what had lost its number went on.
  def test_stopped_or_reported_lost_it_makes_no_id
    lost = Thread::Queue.new
    ids = start(MachineId::Fixed.new(7), on_lost: lost.method(:push))
    factory = ids.sortable(bits: 128)
    ids.report_lost

    [ids, factory].each do |maker|
      assert_equal :signalled, assert_raises(MachineId::Disabled) { maker.next_id }.reason
      assert_raises(MachineId::Disabled) { maker.next_batch(9) }
    end
    assert lost.pop(timeout: PATIENCE)
    assert_nil ids.machine_id
    ids.stop

    assert_nil ids.stop
    assert_raises(MachineId::Disabled) { ids.next_id }
    assert_raises(MachineId::Disabled) { ids.counter.next_id }
    assert_raises(MachineId::Disabled) { MachineId.next_id }
  end

  def test_a_stop_is_over_for_everybody_when_it_is_over
    strategy = Asked.new
    begun, gate, order = Array.new(3) { Thread::Queue.new }
    strategy.define_singleton_method(:release) do |_, _|
      begun << true
      gate.pop
      order << :released
    end
    start(strategy)
    first = Thread.new { @ids.stop }

    assert begun.pop(timeout: PATIENCE)
    first.kill.join
    second = Thread.new do
      @ids.stop
      order << :stopped
    end
    wait_until { second.stop? }
    gate << :go_on

    assert second.join(PATIENCE)
    assert_equal %i[released stopped], [order.pop, order.pop]
    assert_equal :stopped, assert_raises(MachineId::Disabled) { @ids.report_lost || @ids.next_id }.reason
  end

  # Each would make the other's IDs.
  def test_a_number_that_is_written_down_is_used_once
    start(MachineId::Fixed.new(7))
    listed = MachineId::HostIdentifiers.new(["db1"], { "db1" => 7 })
    notices = Thread::Queue.new
    error = assert_raises(MachineId::StartError) { MachineId.start(strategy: listed, on_event: notices.method(:push)) }
    notice = heard_of(:conflict, notices)

    assert_equal %i[conflict conflict], [error.reason, notice.reason]
    assert_match(/machine ID 7 is in use in this process/, notice.message)
    assert_match(/machine ID 7 is in use in this process/, error.message)
    other = MachineId.start(strategy: MachineId::Fixed.new(8))
    @ids.stop

    assert_equal [7, 8], [start(listed), other].map(&:machine_id)
    other.stop
  end

  # Whoever makes IDs needs to keep nothing else.
  def test_a_factory_keeps_its_machine_id
    strategies = Array.new(20) { Asked.new }
    orders = strategies.map { |strategy| MachineId.start(strategy: strategy).sortable }
    start(Asked.new)
    3.times { GC.start }

    assert_equal([7] * 20, orders.map { |factory| machine_of(factory.next_id) })
    assert_empty strategies.flat_map(&:released)
  ensure
    ObjectSpace.each_object(MachineId, &:stop)
  end

  def test_the_callback_of_a_loss
    told = Thread::Queue.new
    on_lost = lambda do |notice|
      told << [notice.reason, assert_raises(MachineId::Disabled) { MachineId.next_id }.reason]
    end
    start(MachineId::Fixed.new(7), on_lost: on_lost)
    @ids.report_lost

    assert_equal %i[signalled signalled], told.pop(timeout: PATIENCE)
  end

  # Whatever it raises, and where a warning cannot be given either: here it raises.
  def test_a_listener_that_raises_keeps_nobody_from_hearing
    told = Thread::Queue.new
    raising = lambda do |name|
      told << name
      raise NotImplementedError, "not today"
    end
    start(Asked.new, on_lost: ->(_) { raising.(:on_lost) }, on_event: ->(notice) { raising.(notice.name) })
    @ids.report_lost

    assert_equal(%i[acquired on_lost lost released acquired], Array.new(5) { told.pop(timeout: PATIENCE) })
  end

  def test_events_of_active_support_where_it_is_there
    Object.const_set(:ActiveSupport, Module.new).const_set(:Notifications, Notifications)
    start(MachineId::Fixed.new(5))
    # What another test began may be told late, and here.
    heard = lambda do
      seen = Notifications::SEEN.pop(timeout: PATIENCE)
      seen && seen.last[:machine_id] != 5 ? heard.() : seen
    end
    name, payload = heard.()

    assert_equal "acquired.machine_id.lease_machines", name
    assert_equal [5, 8.0 * 3600], payload.values_at(:machine_id, :ttl)
    @ids.stop
    name, payload = heard.()

    assert_equal ["released.machine_id.lease_machines", 5], [name, payload[:machine_id]]
  ensure
    Object.send(:remove_const, :ActiveSupport)
  end

  def test_options_that_make_no_sense
    { lease_duration: 29, renew_interval: 19, acquire_timeout: 0 }.each do |name, value|
      error = assert_raises(ArgumentError, name.to_s) { start(MachineId::Fixed.new(1), name => value) }
      assert_match(/expected/, error.message)
    end
    assert_raises(ArgumentError) { start(MachineId::Fixed.new(1), lease_duration: 60, renew_interval: 60) }
    assert_raises(ArgumentError) { start(MachineId::Fixed.new(1), nonsense: 1) }
    assert_raises(TypeError) { start(MachineId::Fixed.new(1), lease_duration: "8 h") }
    assert_raises(TypeError) { start(MachineId::Fixed.new(1), layouts: [1]) }
    two = [MachineId::Layout.twitter, MachineId::Layout.default]

    assert_match(/two of 64 bits/, assert_raises(ArgumentError) { start(MachineId::Fixed.new(1), layouts: two) }.message)
  end

  def test_layouts
    epoch = Time.utc(2020)
    layout = MachineId::Layout.new(time_bits: 41, machine_bits: 10, counter_bits: 12, epoch: epoch)
    start(MachineId::Fixed.new(1023), layouts: [layout])
    parts = layout.decode(@ids.next_id)

    assert_equal 1023, parts.machine_id
    assert_in_delta Time.now.to_f, parts.time.to_f, 60
    assert_equal [1023, 64, "2089-09-06"], [layout.max_machine_id, layout.bits, day(layout.end)]
    assert_equal :machine_id_too_large,
                 assert_raises(MachineId::Disabled) { @ids.counter(bits: 128).next_id }.reason
    none = assert_raises(MachineId::StartError) { start(MachineId::Fixed.new(1024), layouts: [layout]) }

    assert_equal :misconfigured, none.reason
    assert_match(/machine ID 1024 has no room in any layout, expected at most 1023/, none.message)
    assert_equal MachineId::Layout.new(time_bits: 41, machine_bits: 10, counter_bits: 12, epoch: epoch), layout
    assert layout.eql?(layout)
    assert_equal layout.hash, MachineId::Layout.new(time_bits: 41, machine_bits: 10, counter_bits: 12, epoch: epoch).hash
    refute_equal MachineId::Layout.default, MachineId::Layout.twitter
    assert_equal 65_535, MachineId::Layout.sonyflake.max_machine_id
    assert Ractor.shareable?(layout)
    { time_bits: 0, machine_bits: 17, counter_bits: 300, tick: 2, bits: 65 }.each do |name, value|
      options = { time_bits: 41, machine_bits: 10, counter_bits: 12 }.merge(name => value)
      assert_raises(ArgumentError, name.to_s) { MachineId::Layout.new(**options) }
    end
    [-1, 2**64, 2**200].each do |id|
      assert_match(/in 0\.\.2\*\*64-1, not #{id.to_s[0, 40]}/, assert_raises(RangeError) { layout.decode(id) }.message)
    end
    assert_raises(TypeError) { layout.decode("1") }
  end

  # Twitter's, as its makers have it: 2016-07-31 in a known tweet's ID.
  def test_an_id_of_anothers
    parts = MachineId::Layout.twitter.decode(759_730_144_923_254_784)

    assert_equal [2016, 7, 31], [parts.time.year, parts.time.month, parts.time.day]
  end

  def test_where_the_clock_gives_no_time
    layout = ->(bits, epoch) { MachineId::Layout.new(time_bits: bits, machine_bits: 10, counter_bits: 12, epoch: epoch) }
    start(MachineId::Fixed.new(1), layouts: [layout.(41, Time.now + 3600)])

    assert_equal :before_epoch, assert_raises(MachineId::ClockError) { @ids.next_id }.reason
    start(MachineId::Fixed.new(1), layouts: [layout.(30, Time.utc(2020))])

    assert_raises(MachineId::EpochExhausted) { @ids.sortable.next_id }
  end

  # What is a mere value can be compared, and made of its members again.
  def test_what_is_data
    name = +"ids"
    pool = MachineId::PoolLease.new(store: LeaseMachines.open("sqlite::memory:"), pool: name, size: 3)
    name << "!" # which is not the pool's
    [pool, MachineId::Fixed.new(3), MachineId::EnvironmentVariable.new("POD_NAME"), MachineId::CallOptions.new(1.5, nil),
     MachineId::HostIdentifiers.new(["db1"], { "db1" => 1 }), MachineId::Guarded.new(MachineId::Fixed.new(3), pool, "db1"),
     MachineId::Notice.new(:renewed, 3, 60.0, nil, nil), MachineId::Layout.default.decode(7)].each do |value|
      again = value.class[**value.to_h]

      assert_equal value, again
      assert_empty value.to_h.values.grep(String).reject(&:frozen?)
      assert_equal value.class.members, value.members
      value.members.each { |member| assert_equal [value.public_send(member)], [again.public_send(member)] }
    end
  end

  def test_text
    [[64, (2**64) - 1], [64, 0], [96, (2**96) - 1], [128, (2**128) - 1], [128, 7 << 6]].each do |bits, id|
      %i[decimal hex crockford base62 uuid].each do |notation|
        next if notation == :uuid && bits == 128 && id[0, 6].nonzero?

        text = MachineId.format(id, notation, bits: bits)

        assert_equal id, MachineId.parse(text, notation, bits: bits)
      end
    end
    assert_equal "ffffffffffffffff", MachineId.format((2**64) - 1, :hex)
    assert_raises(RangeError) { MachineId.format(2**64, :hex) }
    assert_raises(RangeError) { MachineId.format(-1, :hex) }
    assert_raises(RangeError) { MachineId.format(2**128, :hex, bits: 128) }
    assert_raises(RangeError) { MachineId.format(1, :uuid, bits: 128) }
    assert_raises(ArgumentError) { MachineId.parse("xyz", :hex) }
    assert_raises(ArgumentError) { MachineId.parse("\xE9", :hex) }
    assert_raises(ArgumentError) { MachineId.format(1, :octal) }
    assert_raises(TypeError) { MachineId.format(1, "hex") }
    assert_raises(ArgumentError) { MachineId.encrypt(1, key: "short") }
    assert_raises(TypeError) { MachineId.encrypt(1, key: :short) }
  end

  def test_what_is_encrypted_is_decrypted_without_naming_a_width
    secret = start(MachineId::Fixed.new(7)).encrypted(key: "k" * 32).next_id

    assert_equal 7, MachineId::Layout.default(bits: 128).decode(MachineId.decrypt(secret, key: "k" * 32)).machine_id
    assert_equal secret, MachineId.encrypt(MachineId.decrypt(secret, key: "k" * 32), key: "k" * 32)
  end

  def test_threads_make_different_ids
    ids = start(MachineId::Fixed.new(1))
    threads = Array.new(4) do |i|
      Thread.new { Array.new(1000) { i.even? ? ids.next_id : ids.sortable.next_id } }
    end
    made = threads.flat_map(&:value)

    assert_equal made.size, made.uniq.size
  end

  # Where it has to wait for the clock, others run.
  def test_more_ids_than_time_has_room_for
    layout = MachineId::Layout.new(time_bits: 41, machine_bits: 10, counter_bits: 2, tick: 0.001)
    ids = start(MachineId::Fixed.new(1), layouts: [layout])

    [ids.sortable, ids.counter].each do |factory|
      made = factory.next_batch(200) + Array.new(50) { factory.next_id }

      assert_equal made.sort, made
      assert_equal 250, made.uniq.size
    end
  end

  # What would take minutes is given up with whoever wanted it. What counts goes on from the stamp that was taken last,
  # whatever the clock says.
  def test_a_batch_that_was_interrupted_takes_no_more
    layout = MachineId::Layout.new(time_bits: 41, machine_bits: 10, counter_bits: 2)
    ids = start(MachineId::Fixed.new(1), layouts: [layout])
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { ids.sortable.next_batch(1_000_000) } }
    stamp = lambda do
      parts = layout.decode(ids.next_id)
      (parts.time.to_r * 4000).to_i + parts.counter
    end
    wait_until do
      before = stamp.()
      sleep 0.1
      stamp.() == before + 1
    end
  end

  def test_it_is_not_copied_and_errors_are_one_tree
    start(MachineId::Fixed.new(1))
    [@ids, @ids.counter].each { |object| assert_raises(TypeError) { object.dup } }
    assert_raises(NoMethodError) { MachineId.new }
    assert_raises(NoMethodError) { MachineId::Factory.new }
    assert_equal ["#<LeaseMachines::MachineId machine_id=1>"] * 2, [@ids.inspect, @ids.to_s]
    [MachineId::Disabled, MachineId::NotStarted, MachineId::ClockError, MachineId::EpochExhausted, MachineId::StartError,
     MachineId::LeaseLost].each { |error| assert_operator error, :<, LeaseMachines::Error }
  end

  private

  def day(time) = time.strftime("%F")
end
