# frozen_string_literal: true

module LeaseMachines
  Decision = Data.define(:status, :lease, :reason)

  # What an {Authority}, or a {Store}, answers. A grant and a renewal have a lease and no reason, a release has neither, a
  # rejection has a reason and no lease.
  #
  #   case authority.acquire(owner: 1, now: 0.0, ttl: 2.0)
  #   in { status: :granted, lease: { token: } } then work(token)
  #   in { status: :rejected, reason: :occupied } then wait
  #   end
  #
  # The reasons, which are those of the core:
  #
  # [+:occupied+] a lease is live; for {Authority#acquire} the caller's own counts too
  # [+:vacant+] nobody holds the resource
  # [+:wrong_owner+] somebody else holds it
  # [+:stale_token+] the token is not the current one, be it older or never issued
  # [+:expired+] the lease is over, and can only be taken again
  # [+:clock_regressed+] +now+ lies before the latest observation, and the policy is +:reject+
  # [+:invalid_ttl+] a ttl of zero
  # [+:deadline_overflow+] +now+ and +ttl+ add up to 2**64 seconds or more
  # [+:tokens_exhausted+] no greater token is left
  #
  # @!attribute [r] status
  #   What was done.
  #   @return [Symbol] +:granted+, +:renewed+, +:released+ or +:rejected+
  # @!attribute [r] lease
  #   The lease that was granted or renewed.
  #   @return [Lease, nil]
  # @!attribute [r] reason
  #   Why nothing was done.
  #   @return [Symbol, nil]
  class Decision
    # What a {Store} also says, and what no comparison takes into account: a decision of a store's equals that of an
    # authority.
    #
    # @param status [Symbol]
    # @param lease [Lease, nil]
    # @param reason [Symbol, nil]
    # @param epoch [String, nil]
    # @param occupant [Occupant, nil]
    # @param vacated [Vacated, nil]
    def initialize(status:, lease:, reason:, epoch: nil, occupant: nil, vacated: nil)
      @epoch = epoch
      @occupant = occupant
      @vacated = vacated
      super(status: status, lease: lease, reason: reason)
    end

    # Of a grant or a renewal by a {Store}: the epoch that the lease belongs to.
    # @return [String, nil]
    attr_reader :epoch

    # Of a rejection by a {Store}: who holds the resource.
    # @return [Occupant, nil]
    attr_reader :occupant

    # Of a rejection by a {Store}, where nobody holds the resource: how it was vacated last.
    # @return [Vacated, nil]
    attr_reader :vacated

    # From the native half's answer.
    # @api private
    def self._of((status, lease, reason, epoch, occupant, vacated))
      new(status: status, lease: lease, reason: reason, epoch: epoch,
          occupant: occupant && Occupant.new(*occupant), vacated: vacated && Vacated.new(*vacated))
    end

    # Whether the caller holds the resource now, under a token greater than any before it.
    # @return [Boolean]
    def granted? = status == :granted

    # Whether the lease goes on, under the token it had.
    # @return [Boolean]
    def renewed? = status == :renewed

    # Whether the resource was given back.
    # @return [Boolean]
    def released? = status == :released

    # Whether nothing was granted, renewed or released.
    # @return [Boolean]
    def rejected? = status == :rejected
  end
end
