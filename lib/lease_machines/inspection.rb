# frozen_string_literal: true

module LeaseMachines
  Occupant = Data.define(:owner, :token, :held_for, :remaining, :retained, :label, :identity)

  # The holder of a live lease, as a store knows it.
  #
  # @!attribute [r] owner
  #   @return [Integer] who
  # @!attribute [r] token
  #   @return [Integer] under which token
  # @!attribute [r] held_for
  #   @return [Float] for how many seconds the lease has been held
  # @!attribute [r] remaining
  #   @return [Float] for how many seconds it goes on unless it is renewed
  # @!attribute [r] retained
  #   @return [Boolean] whether the work has ended, and the resource is only kept from being taken again too soon
  # @!attribute [r] label
  #   @return [String, nil] what the holder calls itself
  # @!attribute [r] identity
  #   @return [String, nil] the holder's lasting name
  class Occupant
  end

  Vacated = Data.define(:token, :owner, :how)

  # The last time that a resource was vacated by a request. An expiry vacates nothing: it only makes way.
  #
  # @!attribute [r] token
  #   @return [Integer] the token whose lease it was
  # @!attribute [r] owner
  #   @return [Integer] whose lease it was
  # @!attribute [r] how
  #   @return [Symbol] +:released+ by its holder, +:revoked+ by an operator, or +:withdrawn+ by an owner who did not know
  #     whether it held anything
  class Vacated
  end

  End = Data.define(:token, :owner, :label, :once, :at)

  # Work that ended well.
  #
  # @!attribute [r] token
  #   @return [Integer] under which token
  # @!attribute [r] owner
  #   @return [Integer] whose work it was
  # @!attribute [r] label
  #   @return [String, nil] what its holder called itself
  # @!attribute [r] once
  #   @return [String, nil] the key that it need not be done again under
  # @!attribute [r] at
  #   @return [Time] when, by the store's wall clock
  class End
  end

  Inspection = Data.define(:resource, :epoch, :last_issued, :occupant, :vacated, :last_good)

  # How a resource stands: a snapshot, not a decision. It may be out of date before it is read.
  #
  # @!attribute [r] resource
  #   @return [String] its name
  # @!attribute [r] epoch
  #   @return [String] the store's epoch, 16 hexadecimal digits
  # @!attribute [r] last_issued
  #   @return [Integer, nil] the greatest token issued or burnt; nil where the store has not seen the resource, or has
  #     pruned it
  # @!attribute [r] occupant
  #   @return [Occupant, nil] who holds it
  # @!attribute [r] vacated
  #   @return [Vacated, nil] how it was vacated last, where nobody holds it and the last lease did not just run out
  # @!attribute [r] last_good
  #   @return [End, nil] the last time that work under it ended well
  class Inspection
    # Whether somebody holds the resource.
    # @return [Boolean]
    def held? = !occupant.nil?

    # From the native half's answer.
    # @api private
    def self._of((resource, epoch, last_issued, occupant, vacated, last_good))
      new(resource, epoch, last_issued, occupant && Occupant.new(*occupant), vacated && Vacated.new(*vacated),
          last_good && End.new(*last_good))
    end
  end

  HistoryEntry = Data.define(:token, :owner, :label, :identity, :granted_at, :renewed_at, :renewals, :ends_at, :outcome,
                             :result, :reason)

  # One hold in a resource's history. Times are by the store's wall clock, for people.
  #
  # @!attribute [r] token
  #   @return [Integer] the token of the grant; for a revoke of a vacant resource, the token that it burnt
  # @!attribute [r] owner
  #   @return [Integer] who held it
  # @!attribute [r] label
  #   @return [String, nil] what the holder called itself
  # @!attribute [r] identity
  #   @return [String, nil] the holder's lasting name
  # @!attribute [r] granted_at
  #   @return [Time] when it was granted
  # @!attribute [r] renewed_at
  #   @return [Time] when it was renewed last; the grant itself where it never was
  # @!attribute [r] renewals
  #   @return [Integer] how many times it was renewed
  # @!attribute [r] ends_at
  #   @return [Time] when it ended, or is going to end unless it is renewed
  # @!attribute [r] outcome
  #   @return [Symbol] +:held+ (it is live), +:released+, +:expired+, +:revoked+, +:withdrawn+, +:rotated+ (its owner took
  #     it again under a newer token) or +:epoch_lost+
  # @!attribute [r] result
  #   @return [Symbol, nil] what became of the work: +:good+, +:failed+, or nil where nobody said
  # @!attribute [r] reason
  #   @return [String, nil] what an operator said on revoking it
  class HistoryEntry
  end

  Pruned = Data.define(:resources, :history, :floor)

  # What a prune removed.
  #
  # @!attribute [r] resources
  #   @return [Integer] resources forgotten
  # @!attribute [r] history
  #   @return [Integer] rows of history forgotten
  # @!attribute [r] floor
  #   @return [Integer] no token at or below this is ever issued again, for any resource
  class Pruned
  end

  Finding = Data.define(:severity, :check, :found, :mend)

  # One thing that a store's doctor has looked at.
  #
  # @!attribute [r] severity
  #   @return [Symbol] +:fine+, +:note+, +:warning+ (a promise is weaker) or +:error+ (a promise does not hold)
  # @!attribute [r] check
  #   @return [String] what was looked at
  # @!attribute [r] found
  #   @return [String] what was found, and what was expected where that differs
  # @!attribute [r] mend
  #   @return [String, nil] how to mend it
  class Finding
  end
end
