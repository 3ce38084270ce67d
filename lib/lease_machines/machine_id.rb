# frozen_string_literal: true

module LeaseMachines
  # Unique IDs from a machine number that is leased: a process that makes IDs has a number that no other live process has,
  # and stops making them by itself when that number is no longer its own.
  #
  #   strategy = LeaseMachines::MachineId::PoolLease.new(store: leases, pool: "order-ids", size: 512)
  #   ids = LeaseMachines::MachineId.start(strategy: strategy)
  #   ids.next_id
  #   ids.sortable.next_id
  #   ids.stop
  #
  # Every call for an ID looks at the deadline, on a clock that counts sleep, at the process, in case it is a fork, and at
  # the time that was reserved. So a manager that hangs or died, a process that was stopped, and a child that was forked
  # make no ID too many: they raise {Disabled}. A child starts its own.
  #
  # == Strategies
  #
  # {PoolLease} leases the number from a store. {EnvironmentVariable}, {HostIdentifiers} and {Fixed} take it from what
  # somebody has written down; in a {Guarded} a store finds out where that is wrong. Any other object is one that has
  # +acquire+; the other three methods may be left out.
  #
  # [+acquire(lease_duration, options)+]
  #   takes a number for so many seconds, and returns +[machine_id, lease, ttl]+. The lease is whatever the strategy wants
  #   back. To raise {Exhausted} or anything that is not named here means that it is tried again, {Refused} and
  #   {Misconfigured} end the start.
  # [+renew(lease, lease_duration, options)+]
  #   goes on with it, and returns +[lease, ttl]+. To raise {LeaseLost} says that it is over. To raise anything else says
  #   that nobody knows: it is tried again for as long as the lease is known to stand, and the lease is not released.
  # [+release(lease, options)+]
  #   gives it back, as well as it can.
  # [+deterministic?+]
  #   whether it always returns the same number, so that there is no point in acquiring again after a loss. Where it is left
  #   out: yes.
  #
  # Each call has a thread of its own, and may block; it is waited for for +options.limit+ seconds. The numbers are from 0
  # to what the layouts have room for: 511 in the usual ones.
  class MachineId
    include Uncopyable

    # What every error about machine IDs is.
    class Error < LeaseMachines::Error
    end

    # No machine ID was held so far: {MachineId.start} was not called.
    class NotStarted < Error
    end

    # What makes IDs was turned off, or is off by itself, since what it holds is over.
    class Disabled < Error
      # +:expired+ (the time for which the machine ID was held is over), +:forked+, +:lost+ (another holds it, or its lease
      # was rejected), +:illegal_ttl+ (it was granted for less than 30 s), +:signalled+ ({MachineId#report_lost}),
      # +:stopped+ or +:machine_id_too_large+ (for the layout)
      # @return [Symbol]
      attr_reader :reason

      # @param message [String]
      # @param reason [Symbol]
      def initialize(message, reason:)
        super(message)
        @reason = reason
      end
    end

    # The time bits of the layout are used up.
    class EpochExhausted < Error
    end

    # The clock gives no usable time.
    class ClockError < Error
      # +:behind+ (by more than is waited for: it stepped back, or the reserved time begins ahead of it, see
      # {MachineId#sortable}), +:before_epoch+ (the layout's time has not begun) or
      # +:window_used_up+ (the reserved time is)
      # @return [Symbol]
      attr_reader :reason

      # @param message [String]
      # @param reason [Symbol]
      def initialize(message, reason:)
        super(message)
        @reason = reason
      end
    end

    # No machine ID could be had.
    class StartError < Error
      # +:exhausted+, +:busy+ (others were deciding on each that could be had), +:conflict+ (another identity has the one of
      # a {Guarded}, or this process uses the one that is written down already), +:unreachable+, +:refused+,
      # +:misconfigured+, +:illegal_ttl+, +:clock_skew+, +:resources+ or +:stopped+
      # @return [Symbol]
      attr_reader :reason

      # @param message [String]
      # @param reason [Symbol]
      def initialize(message, reason:)
        super(message)
        @reason = reason
      end
    end

    # For strategies: every machine ID is taken. It is tried again.
    class Exhausted < Error
    end

    # For strategies: whoever hands machine IDs out refuses. A start fails at once.
    class Refused < Error
    end

    # For strategies: it cannot work as it was set up. A start fails at once.
    class Misconfigured < Error
    end

    # For strategies: the lease is over. Another holds the machine ID, or it was rejected.
    class LeaseLost < Error
    end

    # Those that somebody still has, and when each was started: the map itself may be put in another order.
    @started = ObjectSpace::WeakMap.new

    class << self
      private :new

      # Starts, and waits until a machine ID is held.
      #
      # The one that was started last is what {next_id} takes IDs of.
      #
      # At the end of the process it is stopped, after all that +at_exit+ was told later than to load this library. Of
      # several the one that was started last is stopped first, and each as by {MachineId#stop}, whatever becomes of the
      # others; an interrupt ends the waiting for one. A process that is killed, or ends by +exit!+, leaves its machine ID
      # held for the rest of the lease; so does another Ractor than the main one, unless it stops its own.
      #
      # @param strategy [Object] see above
      # @param lease_duration [Numeric] seconds for which a lease is asked for, at least 30
      # @param renew_interval [Numeric] seconds after which it is renewed, at least 20, and less than +lease_duration+
      # @param acquire_timeout [Numeric, nil] seconds for which the start waits, nil for ever
      # @param on_lost [#call, nil] is called with a {Notice} when the machine ID is lost, after the factories were turned
      #   off, in a thread that is for listeners alone: one after the other, so that one that takes long holds up the others
      # @param on_event [#call, nil] the same for every {Notice}. What a listener raises is a warning. Where ActiveSupport is
      #   loaded, each is also an event of +ActiveSupport::Notifications+: +lost.machine_id.lease_machines+, with the
      #   notice's members as its payload
      # @param max_clock_skew [Numeric] seconds that this machine's clock may be away from the store's
      # @param clock_patience [Numeric] seconds for which a call for an ID waits for a clock that is behind
      # @param layouts [Array<Layout>] one for each width that is to differ from the usual
      # @return [MachineId]
      # @raise [StartError] with what was last found while it tried
      # @raise [StoreError] where the store of a {PoolLease} is closed, or the system gives no thread
      # @raise [ArgumentError] for options that make no sense
      def start(strategy:, lease_duration: 8 * 3600, renew_interval: 30 * 60, acquire_timeout: 60, on_lost: nil,
                on_event: nil, max_clock_skew: 10, clock_patience: 1, layouts: [])
        inbox = Inbox.new
        described = Strategies.describe(strategy)
        Attendant.start(inbox, Strategies.asked(strategy), [on_lost, on_event])
        _remember(_start(described, inbox, Seconds.of(lease_duration), Seconds.of(renew_interval),
                         acquire_timeout && Seconds.of(acquire_timeout), Seconds.of(max_clock_skew),
                         Seconds.of(clock_patience), layouts))
      ensure
        inbox&.close
      end

      # The one that was started last in this process or, before a fork, in its parent. Other Ractors than the main one have
      # none.
      # @return [MachineId, nil]
      def current
        @current
      rescue Ractor::IsolationError
        nil
      end

      # The next ID of {current}: 64 bits, unique by counting.
      #
      # @return [Integer]
      # @raise [NotStarted] where there is none
      # @raise [Error] as {MachineId#next_id}
      def next_id
        (@current || _not_started).next_id
      rescue Ractor::IsolationError
        _not_started
      end

      # Writes an ID as text. All but +:decimal+ are of fixed width, so that texts sort as IDs do.
      #
      # @param id [Integer]
      # @param notation [Symbol] +:decimal+, +:hex+, +:crockford+ (base 32), +:base62+ or +:uuid+ (of version 8)
      # @param bits [Integer] 64, 96 or 128
      # @return [String]
      # @raise [RangeError] for an ID that is wider, or one of 128 bits whose lowest 6 are not zero, as a UUID
      def format(id, notation, bits: 64) = _write(id, notation, bits)

      # Reads an ID back.
      #
      # @param text [String]
      # @param notation [Symbol] as for {format}
      # @param bits [Integer] 64, 96 or 128
      # @return [Integer]
      # @raise [ArgumentError] for a text that is none, with what was found, and where
      def parse(text, notation, bits: 64) = _read(text, notation, bits)

      # Encrypts an ID as {MachineId#encrypted} does.
      #
      # @param id [Integer]
      # @param key [String] 32 bytes for 128 bits, 18 for 96, 16 for 64
      # @param bits [Integer] 64, 96 or 128
      # @return [Integer]
      def encrypt(id, key:, bits: 128) = _cipher(true, id, key, bits)

      # The plain ID of an encrypted one, for {Layout#decode}. Any number decrypts to something.
      #
      # @param id [Integer]
      # @param key [String]
      # @param bits [Integer]
      # @return [Integer]
      def decrypt(id, key:, bits: 128) = _cipher(false, id, key, bits)

      private

      def _remember(ids)
        @current = ids
        @started[ids] = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
        ids
      rescue Ractor::IsolationError
        ids
      end

      # At the end of a process. What its parent has started is none of its business, and knows that.
      def _stop_all = _stop(@started.keys.sort_by { |ids| @started[ids] })

      # The last first, and all of them: what one raises is raised when the others have been stopped.
      def _stop(all)
        all.pop&.stop
      ensure
        _stop(all) unless all.empty?
      end

      def _not_started = raise(NotStarted, "no machine ID was held so far: call LeaseMachines::MachineId.start")
    end

    # @!method next_id
    #   The next ID: 64 bits, unique by counting.
    #   @return [Integer]
    #   @raise [Disabled] where the machine ID is not held any more, and in a forked child
    #   @raise [ClockError, EpochExhausted]
    # @!method next_batch(count)
    #   The next IDs: 64 bits, unique by counting, in rising order. They are taken in parts of a thousand, between which
    #   other threads run, and an interrupt ends it: what was taken is lost then.
    #   @param count [Integer] how many, up to 1,000,000
    #   @return [Array<Integer>]
    #   @raise [Error] as {next_id}
    #   @raise [ArgumentError] for more than that
    # @!method machine_id
    #   The machine ID, as long as it is held.
    #   @return [Integer, nil]
    # @!method report_lost
    #   Somebody outside knows that the machine ID is lost. When this returns, no ID is made any more. It is released, and
    #   another one asked for unless the strategy has only this one.
    #   @return [nil]
    # @!method stop
    #   Ends it: no ID is made any more, and the machine ID is given back, for which it waits some 5 s at most. In a forked
    #   child it does nothing.
    #   @return [nil]

    # Makes IDs that are unique by counting, faster than the clock for as long as there is time left over.
    #
    # @param bits [Integer] 64, 96 or 128
    # @return [Factory]
    def counter(bits: 64) = _factory(:counter, bits, nil)

    # Makes IDs whose time bits are when they were made, so that they sort by it.
    #
    # After a machine ID was taken over from a life that had not ended in good order, under an +exclusive_identity+, by
    # +process_proof+ or in a {Guarded}, the time up to the end of that life's lease is reserved, and none of it is this
    # one's: until the clock is there each call raises {ClockError}, +:behind+. Who sorts by IDs asks for short leases (a
    # +lease_duration+ of some minutes) or takes no number over. {#counter} makes IDs at once, with times that are ahead.
    #
    # @param bits [Integer] 64, 96 or 128
    # @return [Factory]
    def sortable(bits: 64) = _factory(:sortable, bits, nil)

    # Makes IDs that tell neither time nor machine nor number to whoever has no key: those of {counter}, encrypted by
    # AES-256 or Speck. All machines whose IDs share a column need one key, and the column holds no plain IDs.
    #
    # @param key [String] 32 bytes for 128 bits, 18 for 96, 16 for 64
    # @param bits [Integer] 64, 96 or 128
    # @return [Factory]
    def encrypted(key:, bits: 128) = _factory(:encrypted, bits, key)

    # @return [String]
    def inspect = "#<#{self.class} machine_id=#{machine_id.inspect}>"
    alias to_s inspect

    # Makes IDs of one kind and width. All of a {MachineId} and a width take from one stream, so that no two make the same
    # ID. As long as one of them is there, the machine ID is kept: what nobody has any more is stopped.
    #
    # @!method next_id
    #   The next ID.
    #   @return [Integer]
    #   @raise [Disabled, ClockError, EpochExhausted]
    # @!method next_batch(count)
    #   The next IDs, as {MachineId#next_batch}.
    #   @param count [Integer] how many, up to 1,000,000
    #   @return [Array<Integer>]
    #   @raise [Disabled, ClockError, EpochExhausted]
    #   @raise [ArgumentError] for more than that
    # @!method bits
    #   The width of its IDs.
    #   @return [Integer]
    class Factory
      include Uncopyable

      class << self
        private :new
      end
    end

    # @api private
    class Inbox
    end
    private_constant :Inbox

    # @api private
    class Call
    end
    private_constant :Call
  end
end

at_exit { LeaseMachines::MachineId.__send__(:_stop_all) }

require_relative "machine_id/layout"
require_relative "machine_id/notice"
require_relative "machine_id/strategies"
require_relative "machine_id/attendant"
