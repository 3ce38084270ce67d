# frozen_string_literal: true

$VERBOSE = true

require "minitest/autorun"
require "lease_machines"

# A warning is a failure: whoever runs with -w would see it. Only that Ractors are experimental is no news.
module WarningsRaise
  def warn(message, category: nil)
    raise "warning: #{message}" unless category == :experimental && message.include?("Ractor is experimental")
  end
end
Warning.extend(WarningsRaise)

class Minitest::Test
  include LeaseMachines

  MAX = (2**64) - 1

  # What stands where a number is expected and is none.
  NOT_NUMBERS = [nil, true, :one, "1", "", [], {}, 1..2, Object.new, BasicObject.new, Complex(1, 1), Class, -> {}].freeze

  def granted(owner:, token:, expires_at:)
    Decision.new(status: :granted, lease: Lease.new(owner:, token:, expires_at:), reason: nil)
  end

  def renewed(owner:, token:, expires_at:) = granted(owner:, token:, expires_at:).with(status: :renewed)

  def released = Decision.new(status: :released, lease: nil, reason: nil)

  def rejected(reason) = Decision.new(status: :rejected, lease: nil, reason:)
end
