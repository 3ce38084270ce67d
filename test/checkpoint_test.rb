# frozen_string_literal: true

require "zlib"
require_relative "test_helper"

class CheckpointTest < Minitest::Test
  def setup
    @authority = Authority.new
    @authority.acquire(owner: 7, now: 0.5, ttl: 2)
    @checkpoint = @authority.checkpoint
  end

  def test_its_parts
    assert_equal 1, @checkpoint.last_issued
    assert_in_delta 0.5, @checkpoint.observed, 0
    assert_equal Lease.new(7, 1, 2.5), @checkpoint.lease
    assert_equal({ last_issued: 1, lease: Lease.new(7, 1, 2.5), observed: 0.5 }, @checkpoint.to_h)
  end

  def test_it_does_not_change_with_its_authority
    @authority.release(owner: 7, token: 1, now: 1)

    assert_equal Lease.new(7, 1, 2.5), @checkpoint.lease
    assert_nil @authority.checkpoint.lease
  end

  def test_equal_states_are_equal
    same = Checkpoint.from_parts(last_issued: 1, lease: Lease.new(7, 1, 2.5), observed: 1r / 2)
    other = Checkpoint.from_parts(last_issued: 2, lease: Lease.new(7, 1, 2.5), observed: 0.5)

    assert_equal @checkpoint, same
    assert_operator @checkpoint, :eql?, same
    assert_equal @checkpoint.hash, same.hash
    assert_equal 1, [@checkpoint, same].uniq.size
    refute_equal @checkpoint, other
    refute_equal @checkpoint, @checkpoint.to_bytes
    refute_equal @checkpoint, nil
  end

  def test_parts_that_were_never_together
    error = assert_raises(ArgumentError) { Checkpoint.from_parts(last_issued: 4, lease: Lease.new(1, 5, 1), observed: 0) }

    assert_equal "lease has token 5, which was never issued: last_issued is 4", error.message
    error = assert_raises(ArgumentError) { Checkpoint.from_parts(last_issued: nil, lease: Lease.new(1, 5, 1), observed: 0) }

    assert_match(/last_issued is none\z/, error.message)
  end

  def test_a_lease_below_the_last_issued_token_is_accepted
    checkpoint = Checkpoint.from_parts(last_issued: 9, lease: Lease.new(1, 5, 1), observed: 0)

    assert_equal 10, Authority.restore(checkpoint).acquire(owner: 2, now: 1, ttl: 1).lease.token
  end

  def test_no_part_can_be_left_out
    whole = { last_issued: 1, lease: nil, observed: 0 }
    whole.each_key { |part| assert_raises(ArgumentError) { Checkpoint.from_parts(**whole.except(part)) } }
    assert_raises(NoMethodError) { Checkpoint.new(**whole) }
  end

  def test_a_lease_that_was_made_in_an_odd_way_is_looked_at_again
    empty = Lease.allocate

    assert_raises(TypeError) { Checkpoint.from_parts(last_issued: 1, lease: empty, observed: 0) }
  end

  def test_bytes_there_and_back
    bytes = @checkpoint.to_bytes

    assert_equal 56, bytes.bytesize
    assert_equal Encoding::BINARY, bytes.encoding
    assert_equal @checkpoint, Checkpoint.from_bytes(bytes)
    assert_equal @checkpoint, Checkpoint.from_bytes(bytes.dup.force_encoding(Encoding::UTF_16LE))
  end

  def test_the_bytes_are_those_of_the_documented_layout
    body = ["LM", 1, 1, 1, 7, 1, 2, 500_000_000, 0, 500_000_000].pack("a2CCQ<Q<Q<Q<L<Q<L<")

    assert_equal body + [Zlib.crc32(body)].pack("L<"), @checkpoint.to_bytes
  end

  def test_no_flipped_bit_is_taken_for_a_state
    bytes = @checkpoint.to_bytes
    (bytes.bytesize * 8).times do |bit|
      flipped = bytes.dup
      flipped.setbyte(bit / 8, flipped.getbyte(bit / 8) ^ (1 << (bit % 8)))
      assert_raises(InvalidCheckpoint) { Checkpoint.from_bytes(flipped) }
    end
  end

  def test_an_error_says_what_was_found_and_is_one_of_ours
    bytes = @checkpoint.to_bytes
    sealed = ->(body) { body + [Zlib.crc32(body)].pack("L<") }
    {
      "" => [:length, /\b0\b/], bytes.chop => [:length, /\b55\b/], "#{bytes}x" => [:length, /\b57\b/],
      sealed.("XY#{bytes[2, 50]}") => [:magic, /58 59/],
      sealed.("LM\2#{bytes[3, 49]}") => [:version, /\b2\b/],
      "#{bytes[..51]}\0\0\0\0" => [:checksum, /./],
      sealed.("LM\1\1#{[0].pack("Q<")}#{bytes[12, 40]}") => [:impossible, /./]
    }.each do |malformed, (kind, message)|
      error = assert_raises(InvalidCheckpoint) { Checkpoint.from_bytes(malformed) }

      assert_equal kind, error.kind
      assert_match message, error.message
      assert_kind_of Error, error
    end
  end

  def test_marshal
    assert_equal @checkpoint, Marshal.load(Marshal.dump(@checkpoint))
    assert_equal [@checkpoint], Marshal.load(Marshal.dump([@checkpoint]))
    dumped = Marshal.dump(@checkpoint)
    dumped.setbyte(-10, dumped.getbyte(-10) ^ 1)
    assert_raises(InvalidCheckpoint) { Marshal.load(dumped) }
  end

  def test_times_that_no_float_can_carry_are_carried
    now = 1_700_000_000 + (123_456_789r / (10**9))
    authority = Authority.new
    authority.acquire(owner: 1, now:, ttl: 1)
    restored = Authority.restore(Checkpoint.from_bytes(authority.checkpoint.to_bytes))

    assert_equal :clock_regressed, restored.acquire(owner: 2, now: now - (1r / (10**9)), ttl: 1).reason
    assert_equal :occupied, restored.acquire(owner: 2, now: now + 1 - (1r / (10**9)), ttl: 1).reason
    assert_equal :granted, restored.acquire(owner: 2, now: now + 1, ttl: 1).status
  end

  def test_pattern_matching
    case @checkpoint
    in { last_issued: 1, lease: { owner: 7, token: }, observed: 0.5 }
      assert_equal 1, token
    end
    case @checkpoint
    in { lease: }
      assert_equal({ lease: }, @checkpoint.deconstruct_keys([:lease]))
    end
    assert_equal @checkpoint.to_h, @checkpoint.deconstruct_keys(nil)
  end

  def test_a_value_needs_no_copies
    assert_predicate @checkpoint, :frozen?
    assert Ractor.shareable?(@checkpoint)
    assert_same @checkpoint, @checkpoint.dup
    assert_same @checkpoint, @checkpoint.clone
    assert_raises(ArgumentError) { @checkpoint.clone(freeze: false) }
    assert_raises(TypeError) { Checkpoint.allocate }
  end

  def test_inspect
    assert_match(/\A#<LeaseMachines::Checkpoint last_issued=1 lease=.*owner=7.* observed=0.5>\z/, @checkpoint.inspect)
    assert_equal @checkpoint.inspect, @checkpoint.to_s
  end
end
