# frozen_string_literal: true

# What a decision costs in Ruby: ruby -Ilib bench/ruby.rb [rounds], after `rake compile`.
#
# Every candidate is called once per turn of the same while loop, in rounds that take all of them in turn, so that what else
# the machine does meets all of them alike; a figure is the median of its rounds. The unit is a bare native call: a method of
# the same class, defined in Rust the usual way, that takes nothing, answers nil, and is called directly, without a wrapper.
#
# Ratios stand twice: as measured, and with the time of the empty loop taken off both sides, which is the harder measure.

require "lease_machines"
require_relative "ruby_model"

# Times the candidates and prints a Markdown table.
class RubyBench
  CALLS = 100_000

  # For all rounds. The layout of 64 bits has 8,192 numbers in a millisecond, one in 122 ns: a call is faster for as long as
  # there is time that was saved while others had their turn, and each of these has a stream of its own.
  IDS, OTHERS = Array.new(2) { |n| LeaseMachines::MachineId.start(strategy: LeaseMachines::MachineId::Fixed.new(n)) }

  # Name, the call, the object that it is put to, and the most bare calls that it should cost (nil: nothing is promised).
  CANDIDATES = [
    ["empty loop", "", -> {}, nil],
    ["bare native call", "it.last_issued", -> { LeaseMachines::Authority.new }, nil],
    ["grant", "it.reacquire(owner: 1, now: 1.5, ttl: 5.25)", -> { LeaseMachines::Authority.new }, 6.0],
    ["renewal", "it.renew(owner: 1, token: 1, now: 1.5, ttl: 5.25)", -> { held(LeaseMachines::Authority.new) }, nil],
    ["rejection", "it.acquire(owner: 2, now: 1.5, ttl: 5.25)", -> { held(LeaseMachines::Authority.new) }, 2.5],
    ["fence.accept", "it.accept(1)", -> { LeaseMachines::Fence.new }, 2.5],
    ["next_id", "it.next_id", -> { IDS }, 2.0],
    ["next_id of a factory", "it.next_id", -> { OTHERS.counter }, 2.0],
    ["next_id, 128 bits", "it.next_id", -> { IDS.counter(bits: 128) }, nil],
    ["plain Ruby: grant", "it.reacquire(owner: 1, now: 1.5, ttl: 5.25)", -> { PlainAuthority.new }, nil],
    ["plain Ruby: rejection", "it.acquire(owner: 2, now: 1.5, ttl: 5.25)", -> { held(PlainAuthority.new) }, nil]
  ].freeze

  def self.held(authority) = authority.tap { _1.acquire(owner: 1, now: 1.5, ttl: 5.25) }

  def initialize(rounds)
    @rounds = rounds
    @loops = CANDIDATES.to_h { |name, call, object,| [name, [loop_of(call), object]] }
  end

  def run
    times = Hash.new { |all, name| all[name] = [] }
    @rounds.times { @loops.each { |name, (turn, object)| times[name] << time(turn, object.()) } }
    @nanos = times.transform_values { |all| all.sort[all.size / 2] * 1e9 / CALLS }
    report
  end

  private

  # Compiled text, so that the call in it is as direct as in anyone's code.
  def loop_of(call)
    eval(<<~RUBY, binding, __FILE__, __LINE__ + 1) # rubocop:disable Security/Eval, Style/DocumentDynamicEvalDefinition
      lambda do |it|
        i = 0
        while i < CALLS
          #{call}
          i += 1
        end
      end
    RUBY
  end

  def time(turn, object)
    GC.start
    begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    turn.(object)
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun
  end

  def report
    puts "#{RUBY_DESCRIPTION}, #{@rounds} rounds of #{CALLS} calls, medians", ""
    puts "| | ns | bare native calls | without the loop | at most |", "| --- | ---: | ---: | ---: | ---: |"
    CANDIDATES.each do |name, _, _, limit|
      verdict = limit && "#{limit}: #{ratio(name) <= limit ? "met" : "missed"}"
      puts format("| %<name>s | %<nanos>.1f | %<ratio>.2f | %<net>.2f | %<verdict>s |",
                  name:, nanos: @nanos[name], ratio: ratio(name), net: net(name), verdict:)
    end
    faster = @nanos["plain Ruby: grant"] / @nanos["grant"]
    puts "", format("A grant is %<faster>.2f times as fast as in plain Ruby; at least 3: %<verdict>s.",
                    faster:, verdict: faster >= 3 ? "met" : "missed")
  end

  def ratio(name) = @nanos[name] / @nanos["bare native call"]

  def net(name)
    empty = @nanos["empty loop"]
    (@nanos[name] - empty) / (@nanos["bare native call"] - empty)
  end
end

RubyBench.new(Integer(ARGV.fetch(0, "31"))).run
