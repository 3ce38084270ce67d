# frozen_string_literal: true

module LeaseMachines
  class MachineId
    Notice = Data.define(:name, :machine_id, :ttl, :reason, :message)

    # Something that happened to a machine ID.
    #
    # @!attribute [r] name
    #   @return [Symbol] +:acquired+, +:not_acquired+ (it is tried again unless no try would do better), +:conflict+ (another
    #     identity has the one of a {Guarded}, or this process uses it already), +:renewed+, +:not_renewed+ (nobody knows;
    #     IDs go on being made, and it is tried again), +:lost+, +:released+ (given back, after a stop or a loss; that of a
    #     stop may come after {MachineId#stop} has returned), +:runs_short+ (a pool: less than a tenth is left) or
    #     +:time_runs_out+ (of a layout)
    # @!attribute [r] machine_id
    #   @return [Integer, nil] which
    # @!attribute [r] ttl
    #   @return [Float, nil] the seconds for which it was granted, or that are left
    # @!attribute [r] reason
    #   @return [Symbol, nil] why: for +:lost+ that of {Disabled}, for +:not_acquired+ and +:conflict+ that of {StartError}
    # @!attribute [r] message
    #   @return [String, nil] more of it, for people
    class Notice
    end
  end
end
