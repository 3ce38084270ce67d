# frozen_string_literal: true

module LeaseMachines
  class MachineId
    Fixed = Data.define(:machine_id)

    # Always this machine ID. Nobody looks whether another process has it, too: whoever writes the configuration does. Twice
    # in one process, whatever says it, it does not start: {StartError}, +:conflict+, until the first was stopped.
    #
    # @!attribute [r] machine_id
    #   @return [Integer] the number
    class Fixed
      # @param machine_id [Integer]
      def initialize(machine_id:)
        Strategies.check(Integer, machine_id: machine_id)
        raise RangeError, "machine_id must be in 0..65535, not #{machine_id}" unless (0..65_535).cover?(machine_id)

        super
      end
    end

    EnvironmentVariable = Data.define(:variable)

    # The digits after the last +-+ of an environment variable, and nothing else: the ordinal of a StatefulSet's pod. The
    # random suffix of a Deployment's is an error, not an ID. It is read at the start.
    #
    # @!attribute [r] variable
    #   @return [String] its name
    class EnvironmentVariable
      # @param variable [String]
      def initialize(variable:)
        Strategies.check(String, variable: variable)
        super(variable: variable.dup.freeze)
      end
    end

    HostIdentifiers = Data.define(:own, :ids)

    # The machine ID that an explicit list gives to one of this host's identifiers: its name, its full name, its addresses.
    # Nothing is derived, and who is not on the list gets an error. As the list names the numbers, adding a host moves
    # nobody.
    #
    #   require "socket"
    #   LeaseMachines::MachineId::HostIdentifiers.new([Socket.gethostname], { "db1" => 1, "db2" => 2 })
    #
    # @!attribute [r] own
    #   @return [Array<String>] what this host is called
    # @!attribute [r] ids
    #   @return [Hash{String => Integer}] the list of identity and machine ID
    class HostIdentifiers
      # @param own [Array<String>]
      # @param ids [Hash{String => Integer}]
      # @raise [TypeError, ArgumentError] for what is no name, such as an environment variable that is not set
      def initialize(own:, ids:)
        Strategies.check(Array, own: own)
        Strategies.check(Hash, ids: ids)
        super(own: own.map { |name| Strategies.filled(own: name) }.freeze,
              ids: ids.to_h { |name, id| [Strategies.filled(ids: name), Fixed.new(id).machine_id] }.freeze)
      end
    end

    PoolLease = Data.define(:store, :pool, :size, :range, :cool_down, :identity, :exclusive_identity, :label, :process_proof)

    # A machine ID from a pool on a store, which no other holder has: the number of a slot. Time for IDs is reserved with
    # each grant and renewal, and what was not used is given back in the end. A store that cannot be asked ends nothing:
    # only its own no does.
    #
    #   LeaseMachines::MachineId::PoolLease.new(store: leases, pool: "order-ids", size: 512)
    #
    # The store may be closed once it has started. A file is opened for each call anew. Where it was removed or replaced, no
    # number of another is taken: the one that is held can be used until its lease is over.
    #
    # @!attribute [r] store
    #   @return [Store] any
    # @!attribute [r] pool
    #   @return [String] its name
    # @!attribute [r] size
    #   @return [Integer] the number of its slots, from 1 to 65,536. Whoever comes first makes the pool. A start needs a
    #     layout that has room for each that it may get
    # @!attribute [r] range
    #   @return [Range, nil] the part of the pool that numbers are to come from; data centres that share one have one each
    # @!attribute [r] cool_down
    #   @return [Numeric] the seconds that a slot rests after another identity has held it, no less than
    #     +max_clock_skew+ of {MachineId.start}
    # @!attribute [r] identity
    #   @return [String, nil] a name that survives restarts: its last slot is its own again, if it is free. Several may share
    #     one
    # @!attribute [r] exclusive_identity
    #   @return [String, nil] a name that nobody else goes by at the same time, as a pod of a StatefulSet: its last slot is
    #     its own again also where it is still held, for that is what a crash left behind
    # @!attribute [r] label
    #   @return [String, nil] shown to people who ask who has the slot
    # @!attribute [r] process_proof
    #   @return [Boolean] whether what a process of this +identity+ has left behind that was killed on this machine is
    #     taken back at once. The process that starts is written down at the end of the label for that, and the next one
    #     looks whether it still exists: on Linux, on the same boot, in the same container. A slot of one that may still
    #     run is never taken. Sortable IDs are not made until the clock has passed all that the first could have used
    class PoolLease
      # @param store [Store]
      # @param pool [String]
      # @param size [Integer]
      # @param range [Range, nil]
      # @param cool_down [Numeric]
      # @param identity [String, nil]
      # @param exclusive_identity [String, nil]
      # @param label [String, nil]
      # @param process_proof [Boolean]
      def initialize(store:, pool:, size:, range: nil, cool_down: 30, identity: nil, exclusive_identity: nil, label: nil,
                     process_proof: false)
        Strategies.check(Store, store: store)
        Strategies.check(String, pool: pool, **{ identity:, exclusive_identity:, label: }.compact)
        Strategies.check(Integer, size: size)
        Strategies.check(Numeric, cool_down: cool_down)
        raise ArgumentError, "size must be in 1..65536, not #{size}" unless size.between?(1, 65_536)

        Strategies.check_range(range) if range
        raise ArgumentError, "an identity is exclusive or not: found both" if identity && exclusive_identity

        Strategies.check_proof(process_proof, identity)
        super(store:, pool: pool.dup.freeze, size:, range:, cool_down:, identity: identity.dup.freeze,
              exclusive_identity: exclusive_identity.dup.freeze, label: label.dup.freeze, process_proof:)
      end
    end

    Guarded = Data.define(:strategy, :pool, :identity)

    # A strategy that knows its machine ID from elsewhere, and a pool in which each one in use is entered under its holder's
    # identity: so a list with a mistake in it, or a number that two variables have, is found out before an ID is made twice.
    # Of two identities with one machine ID the later one, by the store's order, does not start: {StartError}, +:conflict+.
    # Nor does anybody where the store does not answer.
    #
    #   pool = LeaseMachines::MachineId::PoolLease.new(store: leases, pool: "order-ids", size: 512)
    #   listed = LeaseMachines::MachineId::HostIdentifiers.new(["db1"], { "db1" => 1, "db2" => 2 })
    #   LeaseMachines::MachineId::Guarded.new(strategy: listed, pool: pool, identity: "db1")
    #
    # @!attribute [r] strategy
    #   @return [Object] whose machine ID it is, always
    # @!attribute [r] pool
    #   @return [PoolLease] the pool, which serves nothing else, and knows no identity of its own
    # @!attribute [r] identity
    #   @return [String] a name that nobody else goes by at the same time, and the same after a restart
    class Guarded
      # @param strategy [Object]
      # @param pool [PoolLease]
      # @param identity [String]
      def initialize(strategy:, pool:, identity:)
        Strategies.describe(strategy) # which refuses what is none
        Strategies.check(PoolLease, pool: pool)
        Strategies.check(String, identity: identity)
        if pool.identity || pool.exclusive_identity
          raise ArgumentError, "the identity is the guard's: found one of the pool, too"
        end

        super(strategy: strategy, pool: pool, identity: identity.dup.freeze)
      end
    end

    # What the native half is told of a strategy.
    #
    # @api private
    module Strategies
      def self.check(kind, **given)
        given.each do |name, value|
          raise TypeError, "#{name} must be a #{kind}, not #{value.class}" unless value.is_a?(kind)
        end
      end

      def self.check_range(range)
        check(Range, range: range)
        unless range.begin.is_a?(Integer) && range.end.is_a?(Integer)
          raise TypeError, "range must be from an Integer to an Integer, not #{range}"
        end

        first, last = range.minmax
        return if last && first >= 0 && last <= 65_535

        raise ArgumentError, "range must have a number in it, and lie in 0..65535: found #{range}"
      end

      def self.check_proof(process_proof, identity)
        unless [true, false].include?(process_proof)
          raise TypeError, "process_proof must be true or false, not #{process_proof.class}"
        end
        return if identity || !process_proof

        raise ArgumentError, "process_proof is about an identity that several share: found none"
      end

      # What is not said is not to be what all others have not said.
      def self.filled(**given)
        check(String, **given)
        what, name = given.first
        raise ArgumentError, "#{what} must be names, found one that is empty" if name.strip.empty?

        name.dup.freeze
      end

      # The one that is asked in Ruby, if any is.
      def self.asked(strategy) = strategy.is_a?(Guarded) ? asked(strategy.strategy) : strategy

      # Read here, where Ruby sees to it that no thread changes it meanwhile.
      def self.in_environment(variable) = ENV[variable]&.dup&.force_encoding(Encoding::UTF_8)&.scrub

      def self.describe(strategy)
        case strategy
        when Guarded
          [:guarded, describe(strategy.strategy), describe(strategy.pool), strategy.identity]
        when Fixed then [:fixed, strategy.machine_id]
        when EnvironmentVariable then [:environment_variable, strategy.variable, in_environment(strategy.variable)]
        when HostIdentifiers then [:host_identifiers, strategy.own, strategy.ids.to_a]
        when PoolLease
          [:pool, strategy.store, strategy.pool, strategy.size, strategy.range&.minmax, Seconds.of(strategy.cool_down),
           strategy.identity, strategy.exclusive_identity, strategy.label, strategy.process_proof]
        else
          unless strategy.respond_to?(:acquire)
            raise TypeError, "a strategy has the method acquire, #{strategy.class} has not"
          end

          [:ruby, strategy.respond_to?(:deterministic?) ? strategy.deterministic? : true]
        end
      end
    end
    private_constant :Strategies
  end
end
